//! The model that is measured: Llama's shapes in bf16, the same tensors in each of its files.

use std::path::Path;

use stream::{Convert, Dtype, Form, Kind, Layout, Model, Name, Secret, Spec, write};

/// The key of what is encrypted, which `peer.py` of the bench knows too.
pub(crate) fn key() -> Secret {
    Secret::key([7; 32])
}

/// Writes `model.tensors` and `model.safetensors`.
pub(crate) fn make(dir: &Path, gigabytes: f64) {
    let tensors = dir.join("model.tensors");
    write_llama(&tensors, gigabytes);
    convert(&tensors, &dir.join("model.safetensors"), Form::Safetensors);
}

/// Writes `sealed.tensors`.
pub(crate) fn seal(dir: &Path) {
    let key = key();
    let form = Form::Tensorizer { layout: Layout::Aligned, secret: Some(&key) };
    convert(&dir.join("model.tensors"), &dir.join("sealed.tensors"), form);
}

fn convert(from: &Path, to: &Path, form: Form<'_>) {
    let how = Convert { secret: None, form, drop_meta: false, progress: &|_| {} };
    Model::open(from).unwrap().convert(to, &how).unwrap();
}

/// A model of Llama's shapes, as many layers as fit.
fn write_llama(path: &Path, gigabytes: f64) {
    let spec = |name: String, shape: &[u64]| Spec {
        name: Name::plain(name),
        kind: Kind::Parameter,
        module: 0,
        dtype: Dtype::named("bfloat16").unwrap(),
        shape: shape.to_vec(),
        meta: false,
    };
    let mut specs = vec![spec("model.embed_tokens.weight".to_owned(), &[32_064, 3072])];
    let total = |specs: &[Spec]| specs.iter().map(|s| s.data_len().unwrap()).sum::<u64>() as f64;
    for layer in 0.. {
        if total(&specs) >= gigabytes * 1e9 {
            break;
        }
        for (part, shape) in [
            ("input_layernorm", &[3072][..]),
            ("self_attn.q_proj", &[3072, 3072]),
            ("self_attn.k_proj", &[1024, 3072]),
            ("self_attn.v_proj", &[1024, 3072]),
            ("self_attn.o_proj", &[3072, 3072]),
            ("post_attention_layernorm", &[3072]),
            ("mlp.gate_proj", &[8192, 3072]),
            ("mlp.up_proj", &[8192, 3072]),
            ("mlp.down_proj", &[3072, 8192]),
        ] {
            specs.push(spec(format!("model.layers.{layer}.{part}.weight"), shape));
        }
    }
    let longest = specs.iter().map(|spec| spec.data_len().unwrap()).max().unwrap() as usize;
    let noise = |nth: usize| (nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    let bytes: Vec<u8> = (0..longest).map(noise).collect();
    let slice = |spec: Spec| {
        let len = spec.data_len().unwrap() as usize;
        (spec, &bytes[..len])
    };
    let tensors: Vec<(Spec, &[u8])> = specs.into_iter().map(slice).collect();
    write(path, &tensors, Form::Tensorizer { layout: Layout::Aligned, secret: None }).unwrap();
}
