//! Tables in files of Parquet, compressed by zstd: what their columns are, and one that is being written.

use anyhow::Context as _;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a column holds; any value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Text in UTF-8.
    Text,
    /// A number of 64 bits with a point.
    Number,
    /// A whole number from 0 on, of 64 bits.
    Count,
    /// True or false.
    Truth,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnType,
    /// What it means.
    pub what: &'static str,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name, and that of its folder.
    pub name: &'static str,
    /// What a line of it is.
    pub what: &'static str,
    /// Its columns, besides those of the path.
    pub columns: &'static [Column],
}

/// A column of text.
pub const fn text(name: &'static str, what: &'static str) -> Column {
    Column { name, kind: ColumnType::Text, what }
}

/// A column of numbers with a point.
pub const fn number(name: &'static str, what: &'static str) -> Column {
    Column { name, kind: ColumnType::Number, what }
}

/// A column of whole numbers.
pub const fn count(name: &'static str, what: &'static str) -> Column {
    Column { name, kind: ColumnType::Count, what }
}

/// A column of what is true or false.
pub const fn truth(name: &'static str, what: &'static str) -> Column {
    Column { name, kind: ColumnType::Truth, what }
}

/// A value of a line.
pub enum Cell {
    /// Text.
    Text(Option<ByteArray>),
    /// A number.
    Number(Option<f64>),
    /// A whole number.
    Count(Option<u64>),
    /// True or false.
    Truth(Option<bool>),
}

/// A value that is text.
pub fn word(text: &str) -> Cell {
    Cell::Text(Some(text.into()))
}

/// A value that may be text.
pub fn maybe(text: Option<&String>) -> Cell {
    Cell::Text(text.map(|text| text.as_str().into()))
}

/// One file while it is being written.
pub struct Writing {
    writer: SerializedFileWriter<File>,
    part: PathBuf,
    place: PathBuf,
    /// Lines of the next group.
    pub lines: Vec<Vec<Cell>>,
}

impl Writing {
    /// A file that will be at `place`, of a table whose schema has this version.
    pub fn new(table: &Table, version: u32, place: &Path) -> anyhow::Result<Self> {
        let folder = place.parent().context("a file without a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let part = folder.join(format!(".{}.part", place.file_name().unwrap_or_default().to_string_lossy()));
        let file = File::create(&part).with_context(|| format!("making {}", part.display()))?;
        let of = |key: &str, value: String| KeyValue::new(format!("headstart.{key}"), value);
        let about = vec![of("schema", version.to_string()), of("table", table.name.into())];
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(format!("headstart {}", env!("CARGO_PKG_VERSION")))
            .set_key_value_metadata(Some(about));
        let schema = Arc::new(parse_message_type(&message_type(table))?);
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties.build()))?;
        Ok(Self { writer, part, place: place.to_owned(), lines: Vec::new() })
    }

    /// Writes a group.
    pub fn flush(&mut self, table: &Table) -> anyhow::Result<()> {
        let mut group = self.writer.next_row_group()?;
        for (n, column) in table.columns.iter().enumerate() {
            let mut writer = group.next_column()?.context("a column is missing from its own schema")?;
            write_column(&mut writer, self.lines.iter().map(|line| &line[n]), column.kind)?;
            writer.close()?;
        }
        group.close()?;
        self.lines.clear();
        Ok(())
    }

    /// Writes what is left, and gives the file its name.
    pub fn close(mut self, table: &Table) -> anyhow::Result<()> {
        self.flush(table)?;
        let Self { writer, part, place, .. } = self;
        let written = writer.close().with_context(|| format!("writing {}", part.display()));
        written.map(drop)?;
        fs::rename(&part, &place).with_context(|| format!("writing {}", place.display()))
    }
}

fn write_column<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = &'a Cell>,
    kind: ColumnType,
) -> anyhow::Result<()> {
    let (mut levels, mut texts, mut numbers, mut counts, mut truths) = (vec![], vec![], vec![], vec![], vec![]);
    for cell in cells {
        let there = match cell {
            Cell::Text(text) => text.clone().map(|text| texts.push(text)).is_some(),
            Cell::Number(number) => number.map(|number| numbers.push(number)).is_some(),
            // The bits of an unsigned number, as the schema says.
            Cell::Count(count) => count.map(|count| counts.push(count.cast_signed())).is_some(),
            Cell::Truth(truth) => truth.map(|truth| truths.push(truth)).is_some(),
        };
        levels.push(i16::from(there));
    }
    let levels = Some(levels.as_slice());
    match kind {
        ColumnType::Text => writer.typed::<ByteArrayType>().write_batch(&texts, levels, None)?,
        ColumnType::Number => writer.typed::<DoubleType>().write_batch(&numbers, levels, None)?,
        ColumnType::Count => writer.typed::<Int64Type>().write_batch(&counts, levels, None)?,
        ColumnType::Truth => writer.typed::<BoolType>().write_batch(&truths, levels, None)?,
    };
    Ok(())
}

/// The schema of a table in the words of Parquet.
fn message_type(table: &Table) -> String {
    let mut text = format!("message {} {{\n", table.name);
    for column in table.columns {
        let name = column.name;
        let _ = match column.kind {
            ColumnType::Text => writeln!(text, "OPTIONAL BYTE_ARRAY {name} (STRING);"),
            ColumnType::Number => writeln!(text, "OPTIONAL DOUBLE {name};"),
            ColumnType::Count => writeln!(text, "OPTIONAL INT64 {name} (INTEGER(64,false));"),
            ColumnType::Truth => writeln!(text, "OPTIONAL BOOLEAN {name};"),
        };
    }
    text + "}"
}
