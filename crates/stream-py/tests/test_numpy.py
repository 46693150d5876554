"""Everything that works without torch: golden files, arrays both ways, URLs, errors, and the lock.

Runs only where torch is not installed, and needs nothing but numpy.
"""

import configparser
import gzip
import http.server
import importlib.util
import io
import os
import sys
import tempfile
import threading
import unittest
import urllib.parse
from pathlib import Path

import numpy
import seatrial_tensors as ours
from seatrial_tensors import DecryptionParams, EncryptionParams, TensorDeserializer, TensorSerializer
from seatrial_tensors.stream_io import CAInfo, open_stream

if importlib.util.find_spec("torch"):
    raise SystemExit("these tests are for an environment without torch")

GOLDEN = Path(__file__).resolve().parents[2] / "stream/tests/golden"
KEY = bytes(range(32))
SECRETS = {
    "v3-key": DecryptionParams.from_key(KEY),
    "v3-passphrase": DecryptionParams.from_string("correct horse battery staple"),
    "v4-meta-key": DecryptionParams.from_key(KEY),
}


class Case(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = Path(place.name)
        self.path = self.place / "model.tensors"

    def written(self, arrays, encryption=None):
        with TensorSerializer(self.path, encryption=encryption) as serializer:
            serializer.write_state_dict(arrays)
        return self.path

    def flipped(self, array):
        """The model, with the last byte of this array's data changed."""
        data = bytearray(self.path.read_bytes())
        raw = array.tobytes()
        at = data.index(raw) + len(raw) - 1
        data[at] ^= 1
        self.path.write_bytes(data)


class Golden(Case):
    """Files of the real package; every byte of them is known (see golden/make.py)."""

    def test_every_version(self):
        files = ["v1-module", "v1-types", "v2-types", "v2-nested", "v3-key", "v3-passphrase", "v4-meta", "v4-meta-key"]
        for name in files:
            with self.subTest(name):
                self.path.write_bytes(gzip.decompress((GOLDEN / f"{name}.tensors.gz").read_bytes()))
                options = {"lazy_load": True, "verify_hash": True, "encryption": SECRETS.get(name)}
                with TensorDeserializer(self.path, **options) as deserializer:
                    rows = list(deserializer.read_numpy_arrays(allow_raw_data=True))
                self.assertGreater(len(rows), 2)
                for _, _, path, array, _, _ in rows:
                    shown = path if isinstance(path, str) else ".".join(map(str, path))
                    wanted = (31 * numpy.arange(array.nbytes) + len(shown)).astype(numpy.uint8)
                    wanted = wanted % 2 if array.dtype == bool else wanted
                    if shown not in ("marker", "row"):
                        self.assertEqual(array.tobytes(), wanted.tobytes(), shown)
                    else:
                        self.assertFalse(array.any(), shown)


class Arrays(Case):
    def test_what_is_written_is_read(self):
        rng = numpy.random.default_rng(1)
        kinds = "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 c8 c16 >f4".split()
        arrays = {kind: rng.integers(0, 100, (3, 5)).astype(kind) for kind in kinds}
        arrays |= {"bool": arrays["f8"] > 50, "scalar": numpy.array(3, "f4"), "empty": numpy.zeros((0, 2))}
        arrays |= {"nested": {"list": [arrays["f4"].T, arrays["f4"][::2]]}}
        for encryption in (None, EncryptionParams(KEY)):
            self.written(arrays, encryption)
            decryption = encryption and DecryptionParams.from_key(encryption.key)
            with TensorDeserializer(str(self.path), verify_hash=True, encryption=decryption) as deserializer:
                tree = deserializer.tree()
            numpy.testing.assert_equal(tree, arrays)
            self.assertEqual(tree[">f4"].dtype.str, ">f4")

    def test_nothing_is_copied(self):
        self.written({"a": numpy.ones(1000), "b": numpy.ones(1000)})
        with TensorDeserializer(self.path) as deserializer:
            a, b = deserializer["a"], deserializer["b"]
        bases = [array.base.base for array in (a, b)]
        self.assertIs(bases[0], bases[1])
        a[0] = 7
        self.assertEqual(a[0], 7)

    def test_what_is_left_early_leaves_nothing(self):
        with self.assertRaisesRegex(RuntimeError, "stop"):
            with TensorSerializer(self.path) as serializer:
                serializer.write_state_dict({"a": numpy.ones(3)})
                raise RuntimeError("stop")
        with self.assertRaisesRegex(ValueError, "nothing was written"):
            TensorSerializer(self.path).close()
        self.assertEqual(os.listdir(self.place), [])

    def test_more_tensors_than_the_real_package_holds(self):
        arrays = {f"model.layers.{n}.block_sparse_moe.experts.w": numpy.int8([n % 100]) for n in range(15_616)}
        with TensorSerializer(self.path) as serializer:
            for name, array in arrays.items():
                serializer.write_tensor(0, name, 2, array)
        with TensorDeserializer(self.path, verify_hash=True) as deserializer:
            self.assertEqual(len(deserializer), 15_616)
            self.assertEqual(deserializer["model.layers.15615.block_sparse_moe.experts.w"], 15)


class Errors(Case):
    def test_each_names_the_tensor_and_is_of_its_kind(self):
        array = numpy.arange(5000, dtype="f4")
        key, other = (DecryptionParams.from_key(bytes([n]) * 32) for n in (1, 2))
        self.written({"layers.0.w": array}, EncryptionParams(b"\1" * 32))
        refused = self.assertRaisesRegex
        with refused(ours.CryptographyError, "layers.0.w: it cannot be decrypted"):
            TensorDeserializer(self.path, encryption=other)
        with refused(ours.CryptographyError, "is encrypted: give DecryptionParams"):
            TensorDeserializer(self.path, lazy_load=True)
        self.written({"layers.0.w": array, "b": array[:3]})
        with refused(ours.CryptographyError, "is not encrypted"):
            TensorDeserializer(self.path, encryption=key)
        self.flipped(array)
        with refused(ours.HashMismatchError, "layers.0.w: its CRC-32 is another"):
            TensorDeserializer(self.path, verify_hash=True)
        with TensorDeserializer(self.path, verify_hash=True, lazy_load=True) as lazy:
            self.assertEqual(lazy["b"].tolist(), [0, 1, 2])
            with refused(ours.HashMismatchError, "layers.0.w"):
                lazy["layers.0.w"]
        os.truncate(self.path, 270_000)
        with refused(ValueError, "layers.0.w.*truncated"):
            TensorDeserializer(self.path)
        self.path.write_bytes(b"hello, this is no model at all")
        with refused(ValueError, "this is no model"):
            TensorDeserializer(self.path)
        with refused(FileNotFoundError, "nowhere.tensors"):
            TensorDeserializer(self.place / "nowhere.tensors")

    def test_a_file_that_shrinks_while_it_is_read(self):
        self.written({"a": numpy.ones(1 << 20), "b": numpy.ones(4)})
        with TensorDeserializer(self.path, lazy_load=True) as deserializer:
            os.truncate(self.path, 1 << 20)
            with self.assertRaises(OSError):
                deserializer["a"]

    def test_what_cannot_be_done_is_said(self):
        refused = self.assertRaisesRegex
        with refused(ValueError, "https:// cannot be written to"):
            TensorSerializer("https://host/x")
        with refused(ValueError, "s3:// is read only"):
            open_stream("s3://bucket/key", mode="ab")
        with refused(io.UnsupportedOperation, "only a TensorSerializer"):
            open_stream("s3://bucket/key", mode="wb").write(b"x")
        with refused(ValueError, "https:// is read only"):
            open_stream("https://host/x", mode="wb")
        with refused(ValueError, "ftp"):
            open_stream("ftp://host/x")
        with refused(ValueError, "only cacert"):
            CAInfo(allow_untrusted=True)
        with refused(ValueError, "a key has 32 bytes, not 3"):
            DecryptionParams.from_key(b"key")
        with refused(ValueError, "memlimit is"):
            EncryptionParams.from_string("p", memlimit=2 << 30)
        with refused(TypeError, "is no tensor"):
            self.written({"a": {"b": 3}})
        with refused(ValueError, "there twice"):
            with TensorSerializer(self.path) as serializer:
                serializer.write_tensor(0, "a", 0, numpy.ones(1))
                serializer.write_tensor(0, "a", 0, numpy.ones(1))
        with open(self.path, "w") as text, refused(ValueError, "binary mode"):
            TensorSerializer(text)
        for secret in (EncryptionParams(KEY), DecryptionParams.from_key(KEY)):
            self.assertNotIn("00", repr(secret).split(" at ")[0])


class Server(http.server.BaseHTTPRequestHandler):
    """Answers to ranges, as the servers of models do, in a thread of this interpreter."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        data = self.server.data
        first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = data[int(first) : int(last) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(part)

    def do_POST(self):
        self.body()
        if self.path.endswith("?uploads="):
            self.answer(b"<R><UploadId>u</UploadId></R>")
        else:
            self.server.data = b"".join(data for _, data in sorted(self.server.parts.items()))
            self.answer(b"<R/>")

    def do_PUT(self):
        number = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("partNumber")
        if number:
            self.server.parts[int(number[0])] = self.body()
        else:
            self.server.data = self.body()
        self.answer(b"")

    def do_DELETE(self):
        self.server.parts = {}
        self.answer(b"")

    def body(self):
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        return self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Remote(Case):
    """URLs. The server needs the interpreter's lock to answer: a read that held it would never end."""

    def setUp(self):
        super().setUp()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.server.asked, self.server.parts = [], {}
        self.array = numpy.arange(1 << 20, dtype="f4")
        self.server.data = self.written({"a": self.array, "b": self.array[:5]}).read_bytes()
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def test_http(self):
        for stream in (f"{self.url}/m", open_stream(f"{self.url}/m")):
            with TensorDeserializer(stream, verify_hash=True) as deserializer:
                numpy.testing.assert_equal(deserializer["a"], self.array)
        with open_stream(f"{self.url}/m") as stream:
            self.assertEqual(stream.read(5), b"|TZR|")
            stream.seek(-8, os.SEEK_END)
            self.assertEqual(stream.read(), bytes(8))
        with open_stream(f"{self.url}/m", begin=1, end=4) as stream:
            self.assertEqual(stream.read(), b"TZR")
            with self.assertRaisesRegex(ValueError, "as a whole"):
                TensorDeserializer(stream)

    def test_s3_by_arguments_and_by_s3cfg(self):
        given = {"s3_access_key_id": "me", "s3_secret_access_key": "secret", "s3_endpoint": self.url}
        with TensorDeserializer(open_stream("s3://bucket/m", **given)) as deserializer:
            self.assertEqual(deserializer["b"].tolist(), [0, 1, 2, 3, 4])
        path, authorization = self.server.asked[-1]
        self.assertEqual(path, "/bucket/m")
        self.assertIn("Credential=me/", authorization)
        config = configparser.ConfigParser()
        host = self.url.removeprefix("http://")
        config["default"] = {"access_key": "you", "secret_key": "s", "host_base": host, "use_https": "False"}
        with open(self.place / "s3cfg", "w") as file:
            config.write(file)
        with open_stream("s3://bucket/m", s3_config_path=self.place / "s3cfg") as stream:
            self.assertEqual(stream.read(5), b"|TZR|")
        self.assertIn("Credential=you/", self.server.asked[-1][1])
        nobody = {**given, "s3_access_key_id": "", "s3_secret_access_key": ""}
        with open_stream("s3://bucket/m", **nobody) as stream:
            stream.read(5)
        self.assertEqual(self.server.asked[-1][1], "")


    def test_s3_is_written_in_parts(self):
        given = {"s3_access_key_id": "me", "s3_secret_access_key": "secret", "s3_endpoint": self.url}
        large = numpy.arange(9 << 20, dtype="f4")
        for encryption in (None, EncryptionParams(KEY)):
            with open_stream("s3://bucket/new", "wb+", **given) as stream:
                with TensorSerializer(stream, encryption=encryption) as serializer:
                    serializer.write_state_dict({"large": large, "small": large[:3]})
            self.assertEqual(sorted(self.server.parts), [1, 2, 3])
            decryption = encryption and DecryptionParams.from_key(KEY)
            stream = open_stream("s3://bucket/new", **given)
            with TensorDeserializer(stream, encryption=decryption, verify_hash=True) as deserializer:
                numpy.testing.assert_equal(deserializer["large"], large)
                self.assertEqual(deserializer["small"].tolist(), [0, 1, 2])
        before = self.server.data
        with self.assertRaises(RuntimeError):
            with TensorSerializer(open_stream("s3://bucket/new", "wb", **given)) as serializer:
                serializer.write_state_dict({"large": large})
                raise RuntimeError
        self.assertEqual(self.server.parts, {}, "what is left half-way is aborted")
        self.assertIs(self.server.data, before)


class Lock(Case):
    def test_others_run_while_a_model_is_written(self):
        count, done = [0], threading.Event()

        def others():
            while not done.is_set():
                count[0] += 1

        thread = threading.Thread(target=others)
        before = sys.getswitchinterval()
        # So that hardly anything is counted where the lock changes hands for other reasons.
        sys.setswitchinterval(1e-4)
        thread.start()
        try:
            writer = ours.serializer.Writer(ours.stream_io.Place(os.fspath(self.path), local=True))
            row = (["a"], 2, 0, "|u1", [256 << 20], numpy.zeros(256 << 20, numpy.uint8))
            start = count[0]
            writer.add([row])
            counted = count[0] - start
        finally:
            done.set()
            thread.join()
            sys.setswitchinterval(before)
        self.assertGreater(counted, 20_000)


if __name__ == "__main__":
    unittest.main()
