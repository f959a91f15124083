//! Inputs of a fuzz target in one file: each behind its length, four bytes, the most significant first.
//!
//! A corpus is hundreds of files of a few bytes. In one file a target they are as small as what is in them, and a change of
//! them is one change. The test that replays them reads this same source.

/// The inputs as one file, each once, the short ones first: the same inputs make the same file.
pub fn pack(mut inputs: Vec<Vec<u8>>) -> Vec<u8> {
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    let mut file = Vec::new();
    for input in inputs {
        // libFuzzer's longest input is a megabyte.
        let Ok(length) = u32::try_from(input.len()) else { continue };
        file.extend_from_slice(&length.to_be_bytes());
        file.extend_from_slice(&input);
    }
    file
}

/// The inputs of such a file; `None` if it is none.
pub fn unpack(mut file: &[u8]) -> Option<Vec<&[u8]>> {
    let mut inputs = Vec::new();
    while let Some((length, rest)) = file.split_first_chunk() {
        let (input, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        inputs.push(input);
        file = rest;
    }
    file.is_empty().then_some(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_once_and_in_the_same_order_whatever_the_order_before() {
        let of = |words: &[&str]| pack(words.iter().map(|word| word.as_bytes().to_vec()).collect());
        let file = of(&["bb", "", "a", "bb", "c"]);
        assert_eq!(file, of(&["c", "bb", "a", ""]));
        let inputs = unpack(&file).unwrap();
        assert_eq!(inputs, [&b""[..], b"a", b"c", b"bb"]);
    }

    #[test]
    fn a_file_that_is_cut_short_is_none() {
        let file = pack(vec![b"abc".to_vec(), b"defg".to_vec()]);
        for length in 0..=file.len() {
            assert_eq!(unpack(&file[..length]).is_some(), matches!(length, 0 | 7 | 15), "{length}");
        }
    }
}
