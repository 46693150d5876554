"""What torch sees: no copies, no types lost, other devices and types, files that are none."""

import gc
import io
import unittest

import numpy
import torch
from support import Case, module, ours, read, types, write


class Torch(Case):
    def test_nothing_is_copied(self):
        wanted = {name: torch.rand(500, 700) for name in "ab"}
        write(ours, self.path, wanted)
        with read(ours, self.path) as deserializer:
            places = [deserializer[name].data_ptr() for name in "ab"]
            self.assertIs(deserializer["a"], deserializer["a"])
        # Both look into one piece of memory, as far from each other as in the file.
        self.assertEqual((places[1] - places[0]) % 4096, 0)
        self.assertLess(abs(places[1] - places[0]), 2 * wanted["a"].nbytes)
        kept = deserializer["b"].detach()
        del deserializer
        gc.collect()
        kept += 1
        self.assertTrue(torch.equal(kept, wanted["b"] + 1))

    def test_only_floats_are_converted(self):
        write(ours, self.path, types())
        with ours.TensorDeserializer(self.path, device="cpu", dtype=torch.float16) as deserializer:
            for name, tensor in types().items():
                wanted = torch.float16 if tensor.is_floating_point() else tensor.dtype
                self.assertEqual(deserializer[name].dtype, wanted, name)

    def test_buffers_stay_buffers(self):
        write(ours, self.path, module())
        model = module(torch.float32)
        with read(ours, self.path) as deserializer:
            deserializer.load_into_module(model)
        self.assertEqual(list(model.state_dict()), list(module().state_dict()))
        self.assertFalse(any(isinstance(b, torch.nn.Parameter) for b in model.buffers()))
        self.assertEqual(model(torch.tensor([1, 2])).requires_grad, True)

    def test_a_filter_reads_only_its_bytes(self):
        write(ours, self.path, {"a": torch.rand(1 << 20), "b": torch.rand(64), "c": torch.rand(1 << 20)})
        with read(ours, self.path, filter_func=lambda name: name == "b") as deserializer:
            self.assertEqual(list(deserializer), ["b"])
            self.assertEqual((deserializer.total_tensor_bytes, deserializer.total_bytes_read), (256, 256))
        with read(ours, self.path, lazy_load=True) as deserializer:
            self.assertEqual(deserializer.total_bytes_read, 0)
            self.assertEqual(deserializer["b"].numel(), 64)
            self.assertEqual(deserializer.total_bytes_read, 256)
        with self.assertRaisesRegex(ValueError, "closed"):
            deserializer["a"]

    def test_what_is_removed_is_gone(self):
        model = module()
        serializer = ours.TensorSerializer(self.path)
        serializer.write_module(model, remove_tensors=True, include_non_persistent_buffers=False)
        serializer.close()
        self.assertEqual([p for p in model.parameters()], [])
        with read(ours, self.path) as deserializer:
            self.assertNotIn("1.cache", deserializer)
            self.assertEqual(len(deserializer), 9)

    def test_odd_tensors_are_written_as_they_look(self):
        base = torch.rand(6, 4, dtype=torch.complex64)
        wanted = {"t": base.real.T, "conj": base.conj(), "part": base[1:3, ::2], "neg": base.conj().imag}
        write(ours, self.path, wanted)
        with read(ours, self.path) as deserializer:
            for name, tensor in wanted.items():
                self.assertTrue(torch.equal(deserializer[name], tensor.resolve_conj().resolve_neg()), name)
        with self.assertRaisesRegex(ValueError, "make them dense"):
            write(ours, self.path, {"sparse": torch.eye(3).to_sparse()})

    def test_objects_that_are_no_files(self):
        memory = io.BytesIO()
        write(ours, memory, {"w": torch.arange(9)})
        memory.seek(0)
        with read(ours, memory) as deserializer:
            self.assertEqual(deserializer["w"].tolist(), list(range(9)))
        with open(self.path, "wb") as file:
            write(ours, file, {"w": torch.arange(9)})
        with open(self.path, "rb", buffering=0) as file:
            self.assertEqual(read(ours, file)["w"].tolist(), list(range(9)))

    def test_an_open_file_is_its_own_however_it_is_named(self):
        write(ours, self.path, {"w": torch.arange(9)})
        file = open(self.path, "rb")
        (self.place / "model.tensors").unlink()
        self.assertEqual(read(ours, file)["w"].tolist(), list(range(9)))

    def test_modules_without_memory(self):
        made = ours.utils.no_init_or_tensor(lambda: torch.nn.Linear(1 << 20, 1 << 20))
        self.assertTrue(made.weight.is_meta)
        self.assertFalse(torch.empty(1).is_meta)

    def test_numpy_of_what_numpy_lacks(self):
        write(ours, self.path, {"w": torch.ones(3, dtype=torch.bfloat16)})
        with read(ours, self.path) as deserializer:
            with self.assertRaisesRegex(ValueError, "w: numpy lacks torch.bfloat16"):
                list(deserializer.read_numpy_arrays())
            [(*_, array, opaque, name)] = deserializer.read_numpy_arrays(allow_raw_data=True)
        self.assertEqual((array.dtype, opaque, name), (numpy.dtype("V2"), True, "torch.bfloat16"))
        self.assertEqual(array.tobytes(), b"\x80\x3f" * 3)


if __name__ == "__main__":
    unittest.main()
