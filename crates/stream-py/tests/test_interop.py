"""Files of the real tensorizer (2.12.1) read here, and files written here read by it."""

import unittest

import safetensors.torch
import torch
from support import PHRASE, SECRETS, WAYS, Case, module, nested, ours, read, theirs, types, write


class Interoperability(Case):
    def test_modules(self):
        wanted = module()
        for way, (writer, reader) in WAYS.items():
            for secret in SECRETS:
                with self.subTest(way=way, secret=secret):
                    write(writer, self.path, wanted, secret)
                    with ours.utils.no_init_or_tensor():
                        empty = shell()
                    with read(reader, self.path, secret) as deserializer:
                        self.assertEqual(deserializer.load_into_module(empty), 10)
                        self.assertEqual(deserializer.verify_module(wanted)[0], True)
                        self.assertEqual(deserializer.verify_module(empty)[0], True)
                    self.assertEqual(deserializer.total_tensor_bytes, size(wanted))
                    for name, tensor in [*wanted.state_dict().items(), *wanted.named_buffers()]:
                        self.assert_same(tensor, dict(empty.state_dict(), **dict(empty.named_buffers()))[name])
                    ids = torch.tensor([1, 2, 3])
                    # The real package makes buffers into parameters, which want no gradient here.
                    with torch.no_grad():
                        self.assertTrue(torch.equal(wanted(ids), empty.eval()(ids)))

    def test_every_type(self):
        wanted = types()
        for way, (writer, reader) in WAYS.items():
            for secret in SECRETS:
                # The real package cannot encrypt a tensor without bytes.
                known = {k: v for k, v in wanted.items() if writer is ours or secret == "plain" or v.numel()}
                with self.subTest(way=way, secret=secret):
                    write(writer, self.path, known, secret)
                    with read(reader, self.path, secret) as deserializer:
                        self.assertEqual(list(deserializer.keys()), list(known))
                        for name, tensor in known.items():
                            self.assert_same(deserializer[name], tensor)
                            floats = tensor.is_floating_point() or tensor.is_complex()
                            self.assertEqual(deserializer[name].requires_grad, floats)

    def test_nested_state_dicts(self):
        wanted = nested()
        for way, (writer, reader) in WAYS.items():
            with self.subTest(way=way):
                write(writer, self.path, wanted, "key")
                with read(reader, self.path, "key") as deserializer:
                    self.assertEqual(list(deserializer), ["layers", "head"])
                    self.assertEqual(list(deserializer["layers"]), [0, 1])
                    tree = deserializer.tree()
                    self.assertIsInstance(tree["layers"], list)
                    self.assert_same(tree["layers"][1]["ä"], wanted["layers"][1]["ä"])
                    self.assert_same(deserializer["layers"][0]["w"], wanted["layers"][0]["w"])
                    below = deserializer.tree(("layers", 1))
                    self.assertEqual(sorted(below), ["w", "ä"])
                    self.assertEqual(deserializer.tree(["nothing"], default=7), 7)

    def test_meta_tensors_become_zeros(self):
        wanted = {"marker": torch.empty(1, 3, device="meta"), "w": torch.rand(4)}
        for way, (writer, reader) in WAYS.items():
            for secret in ("plain", "key"):
                with self.subTest(way=way, secret=secret):
                    write(writer, self.path, wanted, secret)
                    with read(reader, self.path, secret, lazy_load=True) as deserializer:
                        self.assert_same(deserializer["marker"], torch.zeros(1, 3))
                        self.assert_same(deserializer["w"], wanted["w"])

    def test_single_tensors_and_arrays(self):
        for way, (writer, reader) in WAYS.items():
            with self.subTest(way=way):
                serializer = writer.TensorSerializer(self.path)
                serializer.write_tensor(3, "a.b", writer.TensorType.PARAM, torch.ones(2))
                serializer.write_tensor(4, "c", writer.TensorType.BUFFER, torch.ones(3).numpy())
                self.assertEqual(serializer.total_tensor_bytes, 20)
                serializer.close()
                # The real package yields what it has not yielded yet, so nothing after an eager load.
                with read(reader, self.path, lazy_load=True) as deserializer:
                    rows = [(m, int(k), n, t.tolist()) for m, k, n, t in deserializer.read_tensors()]
                self.assertEqual(rows, [(3, 0, "a.b", [1, 1]), (4, 1, "c", [1, 1, 1])])
                with read(reader, self.path, lazy_load=True) as deserializer:
                    rows = [(r[0], r[2], r[3].tolist(), *r[4:]) for r in deserializer.read_numpy_arrays()]
                self.assertEqual(rows[0], (3, "a.b", [1, 1], False, None))

    def test_keys_and_salts_are_those_of_the_real_package(self):
        options = {"opslimit": 2, "memlimit": 1 << 20, "salt": b"0123456789abcdef"}
        mine, real = (p.EncryptionParams.from_string(PHRASE, **options) for p in (ours, theirs))
        self.assertEqual((mine.key, mine.salt), (real.key, real.salt))
        limits = [(p.EncryptionParams.OpsLimit, p.EncryptionParams.MemLimit) for p in (ours, theirs)]
        for one, other in zip(*limits):
            self.assertEqual({e.name: e.value for e in one}, {e.name: e.value for e in other})

    def test_every_public_name_is_here(self):
        for name in ("serialization", "utils"):
            missing = set(getattr(theirs, name).__all__) - set(dir(getattr(ours, name)))
            self.assertEqual(missing, set(), name)

    def test_safetensors(self):
        wanted = {k: v for k, v in types().items() if k not in ("complex128", "float8_e4m3fnuz")}
        path = str(self.place / "model.safetensors")
        safetensors.torch.save_file(wanted, path)
        with ours.TensorDeserializer(path, device="cpu") as deserializer:
            self.assertEqual(set(deserializer), set(wanted))
            for name, tensor in wanted.items():
                self.assert_same(deserializer[name], tensor)
            write(ours, self.path, dict(deserializer))
        with read(theirs, self.path) as deserializer:
            again = str(self.place / "again.safetensors")
            safetensors.torch.save_file({k: v.detach() for k, v in deserializer.items()}, again)
        for name, tensor in safetensors.torch.load_file(again).items():
            self.assert_same(tensor, wanted[name])


def shell():
    """The module of `module`, whose weights are of another type and somewhere else."""
    return module(torch.float32)


def size(made):
    lasting = dict(made.state_dict(), **dict(made.named_buffers()))
    return sum(tensor.numel() * tensor.element_size() for tensor in lasting.values())


if __name__ == "__main__":
    unittest.main()
