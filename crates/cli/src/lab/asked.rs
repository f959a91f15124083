//! What is asked of experiments, whether of one (`lab run`) or of all (`lab reproduce`): how much, which seed, at which speed, and
//! in which form the answer comes.

use crate::exit;
use clap::builder::{TypedValueParser, ValueParserFactory as _};
use headstart_lab::experiment::{self, ExperimentError, Speeds};

/// Seeds up to 2^53, beyond which programs that read JSON lose digits.
pub fn seed() -> impl TypedValueParser<Value = u64> {
    u64::value_parser().range(..=MOST_SEED)
}

/// The largest seed.
const MOST_SEED: u64 = (1 << 53) - 1;

/// The experiment of this name.
pub fn experiment(name: &str) -> Result<&'static experiment::Entry, exit::Usage> {
    experiment::find(name).map_err(|why| exit::Usage(why.to_string()))
}

/// The arguments that both verbs have.
#[derive(Clone, Debug, clap::Args)]
pub struct CommonArgs {
    /// Run fewer trials; shows that the experiment works, not reliable numbers.
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object on the last line of standard output instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Random seed.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = seed())]
    pub seed: u64,
    /// `sim` (virtual time), `netns` (real packets in namespaces), or `both`.
    #[arg(long, default_value = "both")]
    pub speed: String,
}

impl CommonArgs {
    /// The speeds that are asked for.
    pub fn speeds(&self) -> anyhow::Result<Speeds> {
        self.speed.parse().map_err(|e: ExperimentError| exit::Usage(e.to_string()).into())
    }

    /// The same as words of a command line, the form of the answer left out.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--seed".to_owned(), self.seed.to_string(), "--speed".to_owned(), self.speed.clone()];
        words.extend(self.quick.then(|| "--quick".to_owned()));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};
    use std::ffi::OsStr;

    fn read(words: &[&OsStr]) -> CommonArgs {
        let command = CommonArgs::augment_args(clap::Command::new("lab"));
        CommonArgs::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn the_words_of_what_was_asked_ask_for_the_same() {
        let words = ["lab", "--quick", "--seed", "7", "--speed", "sim"].map(OsStr::new);
        let asked = read(&words);
        assert_eq!((asked.quick, asked.seed, asked.speeds().unwrap()), (true, 7, Speeds::Virtual));
        let again = asked.words();
        let again: Vec<&OsStr> = [OsStr::new("lab")].into_iter().chain(again.iter().map(OsStr::new)).collect();
        assert_eq!(read(&again).words(), asked.words());
        assert_eq!(read(&[OsStr::new("lab")]).words(), ["--seed", "1", "--speed", "both"]);
    }

    #[test]
    fn a_seed_that_programs_would_read_as_another_is_refused() {
        let command = || CommonArgs::augment_args(clap::Command::new("lab"));
        let most = read(&["lab", "--seed", "9007199254740991"].map(OsStr::new));
        assert_eq!(most.seed, MOST_SEED);
        assert!(command().try_get_matches_from(["lab", "--seed", "9007199254740992"]).is_err());
    }

    #[test]
    fn a_slip_in_a_name_gets_the_nearest_one() {
        assert!(
            experiment("page-loda")
                .unwrap_err()
                .0
                .contains("unknown experiment `page-loda` (did you mean `page-load`?)")
        );
        assert!(!experiment("nonsense").unwrap_err().0.contains("did you mean"));
    }

    #[test]
    fn a_speed_that_is_none_is_a_mistake_of_whoever_asks() {
        let error = read(&["lab", "--speed", "fast"].map(OsStr::new)).speeds().unwrap_err();
        assert!(error.is::<exit::Usage>(), "{error}");
    }
}
