//! Response bodies: whole ones, and watches that go on.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::status::ApiError;

/// The most a request body may hold, in bytes; the limit of every kube-apiserver.
pub const MAX_REQUEST_BYTES: usize = 3 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away, in bytes: a client that is nearly
/// done hears the answer, where closing on it would only break its connection. As Go's server does.
const MAX_DISCARDED: usize = 256 * 1024;

/// The body of an answer.
pub enum ResponseBody {
    /// All of it is there.
    Full(Bytes),
    /// A watch: one frame per batch of events.
    Stream(BoxStream<'static, Bytes>),
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full(bytes) => write!(f, "Full({} bytes)", bytes.len()),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|chunk| chunk.map(|c| Ok(Frame::data(c))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// Reads a request body up to the limit.
pub(crate) async fn read<B>(body: B) -> Result<Bytes, ApiError>
where
    B: Body,
    B::Error: std::fmt::Display,
{
    let too_large = || ApiError::body_too_large(MAX_REQUEST_BYTES);
    if body.size_hint().lower() > (MAX_REQUEST_BYTES + MAX_DISCARDED) as u64 {
        return Err(too_large());
    }
    let mut body = std::pin::pin!(body);
    let mut read: Vec<u8> = Vec::new();
    let mut total = 0;
    while let Some(frame) = body.frame().await {
        let mut data = match frame.map(Frame::into_data) {
            Ok(Ok(data)) => data,
            Ok(Err(_)) => continue,
            Err(_) if total > MAX_REQUEST_BYTES => break,
            Err(e) => return Err(ApiError::bad_request(format!("cannot read the body: {e}"))),
        };
        total += data.remaining();
        if total > MAX_REQUEST_BYTES + MAX_DISCARDED {
            break;
        }
        if total > MAX_REQUEST_BYTES {
            continue;
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            read.extend_from_slice(chunk);
            let len = chunk.len();
            data.advance(len);
        }
    }
    if total > MAX_REQUEST_BYTES { Err(too_large()) } else { Ok(read.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        let fits = Full::new(Bytes::from(vec![b'x'; MAX_REQUEST_BYTES]));
        assert_eq!(read(fits).await.unwrap().len(), MAX_REQUEST_BYTES);
        let large = Full::new(Bytes::from(vec![b'x'; MAX_REQUEST_BYTES + 1]));
        assert_eq!(read(large).await.unwrap_err().code, 413);
    }
}
