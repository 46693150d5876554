"""The calls that vLLM's tensorizer loader makes, with nothing changed but the import.

Facts from vllm/model_executor/model_loader/tensorizer.py of vllm-project/vllm at commit 3c50f707 (2025):
which names it imports and in which order and with which arguments it calls them. vLLM itself is too large
to install; its model classes are stood in for by a module of torch, its GPU by the CPU.
"""

import os
import unittest
from functools import partial

import torch
from seatrial_tensors import DecryptionParams, EncryptionParams, TensorDeserializer, TensorSerializer
from seatrial_tensors.stream_io import open_stream
from seatrial_tensors.utils import convert_bytes, get_mem_usage, no_init_or_tensor
from support import Case, module

_read_stream, _write_stream = (partial(open_stream, mode=mode) for mode in ("rb", "wb+"))

# What it passes on where a user set nothing.
STREAM = {"s3_access_key_id": None, "s3_secret_access_key": None, "s3_endpoint": None}


class Vllm(Case):
    def serialized(self, keyfile=None):
        """serialize_vllm_model and, before it, tensorize_vllm_model."""
        encryption = None
        if keyfile is not None:
            with _write_stream(keyfile, **STREAM) as stream:
                stream.write(EncryptionParams.random().key)
            with open(keyfile, "rb") as file:
                encryption = EncryptionParams(key=file.read())
        model = module()
        marker = torch.nn.Parameter(torch.tensor((1,), device="meta"), requires_grad=False)
        model.register_parameter("vllm_tensorized_marker", marker)
        with _write_stream(self.path, **STREAM) as stream:
            serializer = TensorSerializer(stream, encryption=encryption)
            serializer.write_module(model)
            serializer.close()
        del model.vllm_tensorized_marker
        return model

    def options(self, keyfile=None):
        """TensorizerArgs.__post_init__."""
        options = {"verify_hash": True, "encryption": None, "num_readers": None}
        if keyfile:
            with open_stream(keyfile, **STREAM) as stream:
                options["encryption"] = DecryptionParams.from_key(stream.read())
        return options

    def test_a_model_of_its_own(self):
        """is_vllm_tensorized, init_tensorizer_model and deserialize_tensorizer_model."""
        for keyfile in (None, str(self.place / "keys" / "key")):
            with self.subTest(keyfile=keyfile is not None):
                wanted = self.serialized(keyfile)
                options = self.options(keyfile)
                looked = TensorDeserializer(open_stream(self.path, **STREAM), **options, lazy_load=True)
                self.assertIn(".vllm_tensorized_marker", looked)
                with no_init_or_tensor():
                    model = module(torch.float32)
                before = get_mem_usage()
                with (
                    _read_stream(self.path, **STREAM) as stream,
                    TensorDeserializer(
                        stream, dtype=torch.bfloat16, device="cpu", **options
                    ) as deserializer,
                ):
                    deserializer.load_into_module(model)
                read = deserializer.total_tensor_bytes
                self.assertEqual(convert_bytes(read / 0.5), f"{read / 0.5 / 1e6:.1f} MB")
                deserializer.close()
                self.assertRegex(before, r"^CPU: \(maxrss: [\d,]+MiB F: [\d,]+MiB\)")
                self.assertFalse(any(t.device.type == "meta" for t in model.state_dict().values()))
                del model.vllm_tensorized_marker
                for name, tensor in wanted.state_dict().items():
                    self.assert_same(model.state_dict()[name], tensor)
                self.assertEqual(list(model.state_dict()), list(wanted.state_dict()))

    def test_weights_of_others(self):
        """tensorizer_weights_iterator."""
        wanted = self.serialized()
        stream = open_stream(self.path, **STREAM)
        with TensorDeserializer(stream, **self.options(), device="cpu") as state:
            got = dict(state.items())
        self.assert_same(got["1.weight"], wanted[1].weight)
        self.assertTrue(stream.closed)

    def test_an_adapter(self):
        """tensorize_lora_adapter."""
        tensors = {"base.lora_A.weight": torch.rand(8, 4), "base.lora_B.weight": torch.rand(4, 8)}
        with open_stream(f"{self.place}/lora/adapter_config.json", mode="wb+", **STREAM) as f:
            f.write(b"{}")
        uri = f"{self.place}/lora/adapter_model.tensors"
        with open_stream(uri, mode="wb+", **STREAM) as f:
            serializer = TensorSerializer(f)
            serializer.write_state_dict(tensors)
            serializer.close()
        self.assertEqual(sorted(os.listdir(self.place / "lora")), ["adapter_config.json", "adapter_model.tensors"])
        with TensorDeserializer(uri, dtype=torch.float16, device="cpu") as state:
            self.assertEqual(state["base.lora_A.weight"].dtype, torch.float16)


if __name__ == "__main__":
    unittest.main()
