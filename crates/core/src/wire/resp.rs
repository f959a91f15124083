//! RESP2, what Redis and those that speak as it does send and are sent (redis.io, "Redis serialization protocol
//! specification"): commands to bytes, bytes to replies. Bounded, so that no server can make us keep what it likes.

/// Bytes of the longest string that is taken in; what we keep has less than a hundred.
pub const MOST_BYTES: usize = 64 * 1024;
/// The most members of a list.
const MOST_MEMBERS: usize = 64;
/// How deep lists may lie in lists.
const DEPTH: u32 = 3;
/// The longest line.
const LINE: usize = 1024;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A short text, such as `OK`.
    Text(String),
    /// What went wrong.
    Error(String),
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nothing.
    Nil,
    /// A list.
    List(Vec<Reply>),
}

/// Bytes that are no reply, or a larger one than any that we ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It begins with none of the five marks.
    #[error("a reply begins with the byte {0:#04x}, as none of Redis does: is another server there?")]
    Mark(u8),
    /// A length or a number that is none.
    #[error("a reply has a number that is none")]
    Number,
    /// More than is ever asked for.
    #[error("a reply is larger than any that is asked for")]
    TooLarge,
    /// A string does not end where it should.
    #[error("a reply does not end where it says")]
    End,
}

/// A command of these words.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The reply at the beginning of `bytes`, and its length; `None` if more bytes have to come.
pub fn reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut at = 0;
    Ok(read(bytes, &mut at, DEPTH)?.map(|reply| (reply, at)))
}

fn read(bytes: &[u8], at: &mut usize, depth: u32) -> Result<Option<Reply>, Malformed> {
    let Some(mark) = bytes.get(*at) else { return Ok(None) };
    if !b"+-:$*".contains(mark) {
        return Err(Malformed::Mark(*mark));
    }
    let rest = &bytes[*at + 1..];
    let Some(end) = rest.windows(2).take(LINE).position(|pair| pair == b"\r\n") else {
        return if rest.len() > LINE { Err(Malformed::TooLarge) } else { Ok(None) };
    };
    let line = &rest[..end];
    *at += 1 + end + 2;
    let text = || String::from_utf8_lossy(line).into_owned();
    Ok(Some(match mark {
        b'+' => Reply::Text(text()),
        b'-' => Reply::Error(text()),
        b':' => Reply::Number(number(line)?),
        b'$' => match length(line, MOST_BYTES)? {
            None => Reply::Nil,
            Some(length) => {
                let Some(string) = bytes.get(*at..*at + length + 2) else { return Ok(None) };
                let (string, end) = string.split_at(length);
                if end != b"\r\n" {
                    return Err(Malformed::End);
                }
                *at += length + 2;
                Reply::Bytes(string.to_vec())
            }
        },
        _ => match length(line, MOST_MEMBERS)? {
            None => Reply::Nil,
            Some(_) if depth == 0 => return Err(Malformed::TooLarge),
            Some(members) => {
                let mut list = Vec::new();
                for _ in 0..members {
                    let Some(member) = read(bytes, at, depth - 1)? else { return Ok(None) };
                    list.push(member);
                }
                Reply::List(list)
            }
        },
    }))
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).ok_or(Malformed::Number)
}

fn length(line: &[u8], most: usize) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= most => Ok(Some(length)),
            Ok(_) => Err(Malformed::TooLarge),
            Err(_) => Err(Malformed::Number),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(reply: &Reply) -> Vec<u8> {
        match reply {
            Reply::Text(text) => format!("+{text}\r\n").into_bytes(),
            Reply::Error(text) => format!("-{text}\r\n").into_bytes(),
            Reply::Number(number) => format!(":{number}\r\n").into_bytes(),
            Reply::Nil => b"$-1\r\n".to_vec(),
            Reply::Bytes(string) => [format!("${}\r\n", string.len()).as_bytes(), string, b"\r\n"].concat(),
            Reply::List(list) => {
                let members = list.iter().flat_map(bytes);
                format!("*{}\r\n", list.len()).into_bytes().into_iter().chain(members).collect()
            }
        }
    }

    #[test]
    fn the_examples_of_the_specification_are_read() {
        for (text, expected) in [
            ("+OK\r\n", Reply::Text("OK".into())),
            ("-ERR unknown command 'asdf'\r\n", Reply::Error("ERR unknown command 'asdf'".into())),
            (":-1000\r\n", Reply::Number(-1000)),
            ("$5\r\nhello\r\n", Reply::Bytes(b"hello".to_vec())),
            ("$0\r\n\r\n", Reply::Bytes(vec![])),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("*2\r\n$1\r\na\r\n:1\r\n", Reply::List(vec![Reply::Bytes(b"a".to_vec()), Reply::Number(1)])),
        ] {
            assert_eq!(reply(text.as_bytes()), Ok(Some((expected, text.len()))), "{text:?}");
        }
        assert_eq!(command(&[b"LLEN", b"mylist"]), b"*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r\n");
    }

    #[test]
    fn what_is_none_is_refused_and_what_is_not_whole_is_waited_for() {
        for (text, why) in [
            ("HTTP/1.1 400 Bad Request\r\n", Malformed::Mark(b'H')),
            (":x\r\n", Malformed::Number),
            ("$-2\r\n", Malformed::Number),
            ("$99999999\r\n", Malformed::TooLarge),
            ("*99999999\r\n", Malformed::TooLarge),
            ("*1\r\n*1\r\n*1\r\n*1\r\n", Malformed::TooLarge),
            ("$1\r\nabc", Malformed::End),
        ] {
            assert_eq!(reply(text.as_bytes()), Err(why), "{text:?}");
        }
        assert_eq!(reply(&[&b"+"[..], &[b'x'; 2000]].concat()), Err(Malformed::TooLarge));
    }

    fn any_reply() -> impl Strategy<Value = Reply> {
        let leaf = prop_oneof![
            "[ -~]{0,20}".prop_map(Reply::Text),
            "[ -~]{0,20}".prop_map(Reply::Error),
            any::<i64>().prop_map(Reply::Number),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Reply::Bytes),
            Just(Reply::Nil),
        ];
        leaf.prop_recursive(2, 16, 4, |inner| proptest::collection::vec(inner, 0..4).prop_map(Reply::List))
    }

    proptest! {
        #[test]
        fn a_reply_is_read_as_soon_as_it_is_whole_and_never_before(sent in any_reply(), more in any::<[u8; 3]>()) {
            let whole = bytes(&sent);
            for end in 0..whole.len() {
                prop_assert_eq!(reply(&whole[..end]), Ok(None));
            }
            let with_more = [&whole[..], &more].concat();
            prop_assert_eq!(reply(&with_more), Ok(Some((sent, whole.len()))));
        }

        #[test]
        fn any_bytes_are_a_reply_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(Some((_, length))) = reply(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}
