//! Enums that are written as one word each in data files, conditions and reports.
//!
//! One list per enum gives its variants, their spelling, the reader and the nearest valid word for
//! an error message.

/// A closed set of words.
pub(crate) trait Word: Copy + 'static {
    /// Every value with its spelling.
    const WORDS: &'static [(Self, &'static str)];

    /// The value that is spelled so.
    fn read(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(_, spelling)| *spelling == word).map(|(value, _)| *value)
    }
}

/// The one of `words` that is spelled most like `word`.
pub fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Long input is hostile input: what is compared is bounded.
    let word: String = word.chars().take(64).collect();
    words.min_by_key(|candidate| strsim::damerau_levenshtein(&word, candidate))
}

/// Declares an enum of words: `Variant = "spelling"`.
macro_rules! words {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $crate::words::Word for $name {
            const WORDS: &'static [(Self, &'static str)] = &[$((Self::$variant, $word),)+];
        }

        impl $name {
            /// Every value, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The spelling in data files, conditions and reports.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::catalogue::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                use $crate::words::Word as _;
                Self::read(word).ok_or_else(|| {
                    let words = Self::ALL.iter().map(|value| value.as_str());
                    $crate::catalogue::UnknownWord::new(word, words)
                })
            }
        }
    };
}
pub(crate) use words;
