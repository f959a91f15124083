//! What is wrong with a name that a registry does not have: one form of message for all registries, with the nearest known name.

/// "unknown WHAT `x` (did you mean `y`?); choose one of …".
pub fn unknown(what: &str, written: &str, known: &[&str]) -> String {
    let guess = nearest(written, known).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    format!("unknown {what} `{written}`{guess}; choose one of {}", known.join(", "))
}

/// The nearest name, unless all are farther away than a third of what was written, or share nothing with it.
pub fn nearest<'n>(written: &str, known: &[&'n str]) -> Option<&'n str> {
    let length = written.chars().count();
    let is_near = |far: usize| far <= (length / 3).max(1) && far < length;
    let near = known.iter().map(|name| (distance(written, name), *name)).filter(|(far, _)| is_near(*far));
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    rows[0].iter_mut().enumerate().for_each(|(j, cell)| *cell = j);
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_finger_find_their_word_and_other_words_do_not() {
        let known = ["race", "cache-lifetime", "explore"];
        for (slip, word) in [("rcae", "race"), ("cache_lifetime", "cache-lifetime"), ("explor", "explore")] {
            assert_eq!(nearest(slip, &known), Some(word));
        }
        assert_eq!(nearest("window", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest("x", &["a"]), None);
        let list = "; choose one of race, cache-lifetime, explore";
        assert_eq!(unknown("key", "rcae", &known), format!("unknown key `rcae` (did you mean `race`?){list}"));
        assert_eq!(unknown("key", "window", &known), format!("unknown key `window`{list}"));
    }
}
