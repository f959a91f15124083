//! What is wrong with a name that a registry does not have: one form of message for all registries, with the nearest known name.

use strsim::osa_distance;

/// "unknown WHAT `x` (did you mean `y`?); choose one of …".
pub fn unknown(what: &str, written: &str, known: &[&str]) -> String {
    let guess = nearest(written, known).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    format!("unknown {what} `{written}`{guess}; choose one of {}", known.join(", "))
}

/// The nearest name, unless all are farther away than a third of what was written, or share nothing with it.
pub fn nearest<'n>(written: &str, known: &[&'n str]) -> Option<&'n str> {
    let length = written.chars().count();
    let is_near = |far: usize| far <= (length / 3).max(1) && far < length;
    let near = known.iter().map(|name| (osa_distance(written, name), *name)).filter(|(far, _)| is_near(*far));
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
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
        // A third of six letters is two, of eleven three.
        assert_eq!(nearest("sixxxx", &["sixyyy", "sixxzz"]), Some("sixxzz"));
        assert_eq!(nearest("elevenxxxxx", &["elevenxyyyy"]), None);
        let list = "; choose one of race, cache-lifetime, explore";
        assert_eq!(unknown("key", "rcae", &known), format!("unknown key `rcae` (did you mean `race`?){list}"));
        assert_eq!(unknown("key", "window", &known), format!("unknown key `window`{list}"));
    }
}
