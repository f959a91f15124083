//! What verbs say: to wrong input, and with `--json`.

mod json;
mod schema;
mod table;
mod wrong_input;
