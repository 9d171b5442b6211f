//! A pack, which is one file that contains a site.
//!
//! ```text
//!  contents of all files │ index │ footer: length of the index (8 bytes), magic (8 bytes)
//! ```
//!
//! The index is a protobuf message with the path, position, length and hash of each file, sorted by
//! path. While a site is open, the index is in memory, with one buffer for all paths; contents are
//! read on demand.

use std::fs;
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::path::{MAX_PATH, is_path};
use crate::rules::headers::Headers;
use crate::rules::redirects::Redirects;
use crate::rules::{HEADERS_FILE, InvalidRule, MAX_RULES_BYTES, REDIRECTS_FILE};

/// The maximum number of files of a site.
pub const MAX_FILES: usize = 20_000;
/// The maximum size of a file, in bytes.
pub const MAX_FILE_BYTES: u64 = 25 << 20;
/// The maximum size of all files together, in bytes.
pub const MAX_SITE_BYTES: u64 = 512 << 20;
/// The name of the file that lists the files of a folder that are not packed. This file is not
/// packed either.
pub const IGNORE_FILE: &str = ".assetsignore";

const MAGIC: [u8; 8] = *b"tenonas1";
/// The size of the footer, in bytes.
const FOOTER: u64 = 16;

/// The maximum size of an index, in bytes: the entry of a file takes at most 64 bytes besides the
/// path.
const MAX_INDEX: u64 = (MAX_FILES * (MAX_PATH + 64) + 2 * MAX_RULES_BYTES) as u64;

/// The maximum size of a pack, in bytes.
pub const MAX_PACK_BYTES: u64 = MAX_SITE_BYTES + MAX_INDEX + FOOTER;

#[derive(Clone, PartialEq, Message)]
struct Index {
    #[prost(message, repeated, tag = "1")]
    files: Vec<IndexedFile>,
    /// The content of the site's file `_headers`.
    #[prost(string, tag = "2")]
    headers: String,
    /// The content of the site's file `_redirects`.
    #[prost(string, tag = "3")]
    redirects: String,
}

#[derive(Clone, PartialEq, Message)]
struct IndexedFile {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(uint64, tag = "2")]
    offset: u64,
    #[prost(uint64, tag = "3")]
    length: u64,
    /// The first 16 bytes of the SHA-256 hash of the content.
    #[prost(bytes = "vec", tag = "4")]
    hash: Vec<u8>,
}

/// The reason why a site cannot be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    #[error("there are more than {MAX_FILES} files; leave some out")]
    Files,
    #[error("{path:?} is larger than {} MiB, the maximum size of a file", MAX_FILE_BYTES >> 20)]
    File { path: String },
    #[error("the files are larger than {} MiB in total; leave some out", MAX_SITE_BYTES >> 20)]
    Site,
    #[error(
        "{0:?} is not a valid file path; use a relative path of at most {MAX_PATH} bytes without control characters and without . and .. segments"
    )]
    Path(String),
    #[error("{0:?} occurs twice")]
    Duplicate(String),
    #[error("{0:?} is larger than {MAX_RULES_BYTES} bytes, or is not UTF-8 text")]
    Rules(&'static str),
    #[error("{}", list(.0))]
    InvalidRules(Vec<InvalidRule>),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn list(rules: &[InvalidRule]) -> String {
    rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Writes a pack.
pub struct Packer {
    writer: BufWriter<fs::File>,
    /// The position of the next file in the pack, in bytes.
    offset: u64,
    index: Index,
}

impl Packer {
    /// Begins a pack in an empty file.
    pub fn new(file: fs::File) -> Self {
        Self { writer: BufWriter::new(file), offset: 0, index: Index::default() }
    }

    /// Adds a file. The content of [`HEADERS_FILE`] and [`REDIRECTS_FILE`] goes into the index, and
    /// [`IGNORE_FILE`] is left out.
    ///
    /// # Arguments
    /// * `path` - relative, with `/` between its segments.
    /// * `content` - read to its end, or until it exceeds a limit. Not read for [`IGNORE_FILE`].
    ///
    /// # Errors
    /// Fails if the path is invalid, a limit is exceeded, a file of rules is not UTF-8, or reading
    /// or writing fails.
    pub fn add(&mut self, path: &str, content: &mut impl Read) -> Result<(), PackError> {
        match path {
            IGNORE_FILE => return Ok(()),
            HEADERS_FILE => {
                self.index.headers = rules(HEADERS_FILE, content)?;
                return Ok(());
            }
            REDIRECTS_FILE => {
                self.index.redirects = rules(REDIRECTS_FILE, content)?;
                return Ok(());
            }
            _ => {}
        }
        if !is_path(path) {
            return Err(PackError::Path(path.to_owned()));
        }
        if self.index.files.len() == MAX_FILES {
            return Err(PackError::Files);
        }
        let (mut hash, mut length, mut buffer) = (Sha256::new(), 0, vec![0; 64 * 1024]);
        loop {
            let read = content.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            length += read as u64;
            if length > MAX_FILE_BYTES {
                return Err(PackError::File { path: path.to_owned() });
            }
            if self.offset + length > MAX_SITE_BYTES {
                return Err(PackError::Site);
            }
            hash.update(&buffer[..read]);
            self.writer.write_all(&buffer[..read])?;
        }
        self.index.files.push(IndexedFile {
            path: path.to_owned(),
            offset: self.offset,
            length,
            hash: hash.finalize()[..16].to_vec(),
        });
        self.offset += length;
        Ok(())
    }

    /// Writes the rest of the pack. Returns the SHA-256 hash of its index, which is the same for
    /// the same files and rules, if the files were added in the same order.
    ///
    /// # Errors
    /// Fails if the site's rules are invalid, two files have the same path, or writing fails.
    pub fn finish(self) -> Result<[u8; 32], PackError> {
        let Self { mut writer, mut index, .. } = self;
        let mut faults = Headers::parse(&index.headers).err().unwrap_or_default();
        faults.extend(Redirects::parse(&index.redirects).err().unwrap_or_default());
        if !faults.is_empty() {
            return Err(PackError::InvalidRules(faults));
        }
        index.files.sort_by(|a, b| a.path.cmp(&b.path));
        if let Some(pair) = index.files.windows(2).find(|pair| pair[0].path == pair[1].path) {
            return Err(PackError::Duplicate(pair[0].path.clone()));
        }
        let index = index.encode_to_vec();
        writer.write_all(&index)?;
        writer.write_all(&(index.len() as u64).to_le_bytes())?;
        writer.write_all(&MAGIC)?;
        writer.flush()?;
        Ok(Sha256::digest(index).into())
    }
}

fn rules(name: &'static str, content: &mut impl Read) -> Result<String, PackError> {
    let mut text = String::new();
    match content.take(MAX_RULES_BYTES as u64 + 1).read_to_string(&mut text) {
        Ok(read) if read <= MAX_RULES_BYTES => Ok(text),
        Err(error) if error.kind() != io::ErrorKind::InvalidData => Err(error.into()),
        _ => Err(PackError::Rules(name)),
    }
}

/// An open site.
#[derive(Debug)]
pub struct Site {
    pack: fs::File,
    /// All paths, sorted and concatenated.
    paths: String,
    files: Vec<FileEntry>,
    pub(crate) headers: Headers,
    pub(crate) redirects: Redirects,
}

#[derive(Clone, Copy, Debug)]
struct FileEntry {
    /// The end of the path in `paths`.
    path_end: u32,
    /// In bytes.
    length: u32,
    /// The position in the pack, in bytes.
    offset: u64,
    hash: [u8; 16],
}

/// A file of a site.
#[derive(Clone, Copy, Debug)]
pub struct File<'s> {
    pub path: &'s str,
    /// The length of the content, in bytes.
    pub length: u32,
    /// The position of the content in the pack, in bytes.
    pub offset: u64,
    /// The first 16 bytes of the SHA-256 hash of the content.
    pub hash: [u8; 16],
}

/// Compares two files of one site by their paths, because a site contains each path once.
impl PartialEq for File<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Site {
    /// Opens a pack.
    ///
    /// # Errors
    /// Fails if the pack cannot be read, or is damaged.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of(fs::File::open(path)?)
    }

    /// Reads the index of a pack from an open file.
    ///
    /// # Errors
    /// Fails if the pack cannot be read, or is damaged.
    pub fn of(mut pack: fs::File) -> io::Result<Self> {
        let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let end = pack.seek(SeekFrom::End(0))?;
        let footer = end.checked_sub(FOOTER).ok_or_else(|| damaged("the pack has no footer"))?;
        let mut bytes = [0; FOOTER as usize];
        pack.read_exact_at(&mut bytes, footer)?;
        let (length, magic) = bytes.split_at(8);
        if magic != MAGIC {
            return Err(damaged("the pack has an unknown format"));
        }
        let length =
            u64::from_le_bytes(length.try_into().expect("the length does not have 8 bytes"));
        let index_start = footer
            .checked_sub(length)
            .filter(|_| length <= MAX_INDEX)
            .ok_or_else(|| damaged("the pack's index has an invalid length"))?;
        let mut index = vec![0; length as usize];
        pack.read_exact_at(&mut index, index_start)?;
        let Index { files: indexed, headers, redirects } =
            Index::decode(&index[..]).map_err(|error| damaged(&error.to_string()))?;
        let (mut paths, mut files) = (String::new(), Vec::with_capacity(indexed.len()));
        for IndexedFile { path, offset, length, hash } in indexed {
            paths.push_str(&path);
            let entry = FileEntry {
                path_end: u32::try_from(paths.len())
                    .map_err(|_| damaged("the paths are too long"))?,
                length: u32::try_from(length).map_err(|_| damaged("a file is too large"))?,
                offset,
                hash: hash[..].try_into().map_err(|_| damaged("a hash has a wrong length"))?,
            };
            if offset.checked_add(length).is_none_or(|end| end > index_start) {
                return Err(damaged("a file is outside the pack"));
            }
            files.push(entry);
        }
        paths.shrink_to_fit();
        let rules = |_| damaged("the pack has invalid rules");
        let site = Self {
            pack,
            paths,
            files,
            headers: Headers::parse(&headers).map_err(rules)?,
            redirects: Redirects::parse(&redirects).map_err(rules)?,
        };
        if !(1..site.files.len()).all(|at| site.path(at - 1) < site.path(at)) {
            return Err(damaged("the pack's index is not sorted"));
        }
        Ok(site)
    }

    /// Returns the file with this path, which does not begin with a slash, or `None` if there is no
    /// such file.
    pub fn file(&self, path: &str) -> Option<File<'_>> {
        let (mut low, mut high) = (0, self.files.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.path(middle).cmp(path) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let FileEntry { length, offset, hash, .. } = self.files[middle];
                    return Some(File { path: self.path(middle), length, offset, hash });
                }
            }
        }
        None
    }

    fn path(&self, at: usize) -> &str {
        let start = at.checked_sub(1).map_or(0, |before| self.files[before].path_end as usize);
        &self.paths[start..self.files[at].path_end as usize]
    }

    /// Returns the open pack, from which contents are read.
    pub fn pack(&self) -> &fs::File {
        &self.pack
    }

    /// Returns an estimate of the memory that the open site takes, in bytes.
    pub fn memory(&self) -> usize {
        self.paths.len() + self.files.len() * size_of::<FileEntry>() + 2 * MAX_RULES_BYTES
    }

    /// Returns the number of files.
    pub fn file_count(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
pub(crate) mod tests;
