//! Error chains as people read them.
//!
//! Our errors never print their source, so the chain is joined once, at the edge. Some libraries do
//! print it; a cause whose text already ends what was printed is not printed again.

use std::error::Error;
use std::fmt;

/// A chain longer than this is a cycle or a bug; the rest is left out.
const MAX_CAUSES: usize = 32;

/// Displays `error` and its causes as `outer: middle: root`, each text once.
pub fn chain(error: &dyn Error) -> Chain<'_> {
    Chain(error)
}

/// See [`chain`].
pub struct Chain<'a>(&'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printed = self.0.to_string();
        out.write_str(&printed)?;
        let causes = std::iter::successors(self.0.source(), |&error| error.source());
        for cause in causes.take(MAX_CAUSES) {
            let text = cause.to_string();
            if printed.ends_with(&text) {
                continue;
            }
            write!(out, ": {text}")?;
            printed = text;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<Self>>);

    impl fmt::Display for Layer {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|layer| layer as _)
        }
    }

    #[test]
    fn prints_each_cause_once() {
        let check = |layers: &[&'static str], expect: &str| {
            let mut error = None;
            for text in layers.iter().rev() {
                error = Some(Box::new(Layer(text, error)));
            }
            assert_eq!(chain(error.unwrap().as_ref()).to_string(), expect);
        };
        check(&["read lease"], "read lease");
        check(&["read lease", "connect", "refused (111)"], "read lease: connect: refused (111)");
        check(
            &["read lease", "http: connect: refused", "connect: refused", "refused"],
            "read lease: http: connect: refused",
        );
        check(&["timeout", "timeout"], "timeout");
        check(&["bind: in use", "use", "because"], "bind: in use: because");
    }

    #[test]
    fn stops_in_endless_chains() {
        #[derive(Debug)]
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("again")
            }
        }
        impl Error for Endless {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(self)
            }
        }
        assert_eq!(chain(&Endless).to_string(), "again");
    }
}
