//! Static bearer tokens from a file of lines `token,user,uid,"group1,group2"`.
//!
//! Fields may be quoted as CSV has it, blank lines do not count. What a kube-apiserver takes with a
//! warning or silently drops (an empty or repeated token, groups without quotes around them) is
//! refused here, with the line. Tokens are kept as digests only: they cannot leak from memory dumps
//! or error texts, and how long a lookup takes says nothing about them.

use std::collections::HashMap;
use std::error::Error;
use std::iter::Peekable;
use std::str::Chars;

use sha2::{Digest, Sha256};

use super::User;
use super::authn::{TokenAuthenticator, TokenUser};

/// The tokens of one file.
#[derive(Debug, Default)]
pub struct StaticTokens(HashMap<[u8; 32], User>);

/// A token file that cannot be used. Never quotes the file: it holds secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ReadTokenFile {
    /// The line where the record begins, counted from one.
    pub line: usize,
    /// What is wrong there.
    pub problem: &'static str,
}

impl StaticTokens {
    /// Reads a whole file.
    pub fn parse(text: &str) -> Result<Self, ReadTokenFile> {
        let mut tokens = HashMap::new();
        let mut records = Records { rest: text.chars().peekable(), line: 1 };
        while let Some((line, record)) = records.next_record()? {
            let failed = |problem| ReadTokenFile { line, problem };
            let (token, user) = match record.as_slice() {
                [token, name, uid] => (token, user(name, uid, "")),
                [token, name, uid, groups] => (token, user(name, uid, groups)),
                [_] | [_, _] => {
                    return Err(failed("fewer than three columns (token, user, uid)"));
                }
                _ => {
                    return Err(failed(
                        "more than four columns; several groups stand in quotes: \"a,b\"",
                    ));
                }
            };
            if token.is_empty() {
                return Err(failed("the token is empty"));
            }
            if user.name.is_empty() {
                return Err(failed("the user name is empty"));
            }
            if tokens.insert(digest(token), user).is_some() {
                return Err(failed("the token was given before"));
            }
        }
        Ok(Self(tokens))
    }
}

impl TokenAuthenticator for StaticTokens {
    fn authenticate(
        &self,
        token: &str,
        _: &[String],
    ) -> Result<Option<TokenUser>, Box<dyn Error + Send + Sync>> {
        let user = self.0.get(&digest(token)).cloned();
        Ok(user.map(|user| TokenUser { user, audiences: None }))
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn user(name: &str, uid: &str, groups: &str) -> User {
    let groups = groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect();
    User { name: name.to_owned(), uid: uid.to_owned(), groups, ..User::default() }
}

/// RFC 4180, strictly: a quote is doubled, and stands only in fields that are quoted.
struct Records<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Records<'_> {
    fn take(&mut self) -> Option<char> {
        let next = self.rest.next();
        if next == Some('\n') {
            self.line += 1;
        }
        next
    }

    /// Whether the line ends here, in which case that end is taken.
    fn take_line_end(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (None, _) => true,
            (Some('\n'), _) => self.take().is_some(),
            (Some('\r'), Some('\n')) => self.take().and(self.take()).is_some(),
            _ => false,
        }
    }

    fn next_record(&mut self) -> Result<Option<(usize, Vec<String>)>, ReadTokenFile> {
        while self.rest.peek().is_some() && self.take_line_end() {}
        if self.rest.peek().is_none() {
            return Ok(None);
        }
        let line = self.line;
        let mut record = Vec::new();
        loop {
            let (field, last) =
                self.next_field().map_err(|problem| ReadTokenFile { line, problem })?;
            record.push(field);
            if last {
                return Ok(Some((line, record)));
            }
        }
    }

    /// The field, and whether it was the last of its record.
    fn next_field(&mut self) -> Result<(String, bool), &'static str> {
        let quoted = self.rest.next_if_eq(&'"').is_some();
        let mut field = String::new();
        if quoted {
            loop {
                match self.take() {
                    None => return Err("a quote is not closed"),
                    Some('"') if self.rest.next_if_eq(&'"').is_none() => break,
                    Some(other) => field.push(other),
                }
            }
        }
        loop {
            if self.take_line_end() {
                return Ok((field, true));
            }
            match self.take() {
                Some(',') => return Ok((field, false)),
                Some('"') => return Err("a quote stands in the middle of a field"),
                Some(_) if quoted => return Err("text follows a closing quote"),
                Some(other) => field.push(other),
                None => return Ok((field, true)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_users_and_groups() {
        let text = "t1,alice,u1\r\n\n t2 ,bob,\"u,2\",dev\nt3,\"ca\"\"rol\",,\"a,b\"\n\"t\n4\",dave,4,\"\"";
        let tokens = StaticTokens::parse(text).unwrap();
        let check = |token: &str, name: &str, uid: &str, groups: &[&str]| {
            let user = tokens.authenticate(token, &[]).unwrap().unwrap().user;
            assert_eq!((user.name.as_str(), user.uid.as_str()), (name, uid));
            assert_eq!(user.groups, groups);
        };
        check("t1", "alice", "u1", &[]);
        check(" t2 ", "bob", "u,2", &["dev"]);
        check("t3", "ca\"rol", "", &["a", "b"]);
        check("t\n4", "dave", "4", &[]);
        for unknown in ["", "t", "t11", "T1", "alice"] {
            assert_eq!(tokens.authenticate(unknown, &[]).unwrap(), None, "{unknown:?}");
        }
    }

    #[test]
    fn says_what_is_wrong_in_which_line() {
        let check = |text: &str, line: usize, problem: &str| {
            let error = StaticTokens::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(error.problem.starts_with(problem), "{text:?}: {}", error.problem);
            assert!(!error.to_string().contains("s3cret"));
        };
        check("s3cret,alice", 1, "fewer than three columns");
        check("t,a,1\n\ns3cret", 3, "fewer than three columns");
        check("s3cret,alice,1,a,b", 1, "more than four columns");
        check("t,a,1\n,bob,2", 2, "the token is empty");
        check("s3cret,,2", 1, "the user name is empty");
        check("s3cret,a,1\nt,b,2\ns3cret,c,3", 3, "the token was given before");
        check("\"x\ny\",a,1\ns3cret,\"a,1\n\n", 3, "a quote is not closed");
        check("s3cret,a\"b,1", 1, "a quote stands in the middle");
        check("s3cret,\"a\"b,1", 1, "text follows a closing quote");
    }
}
