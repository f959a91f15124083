//! What verbs say: to wrong input, and with `--json`.

mod json;
mod lab_link;
mod schema;
mod table;
mod wrong_input;
