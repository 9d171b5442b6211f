//! Decides whether a module may be compiled: whether it is valid, and whether both the work that V8
//! does for it and the memory that V8 keeps are bounded.
//!
//! V8 cannot be terminated while it validates a module, compiles a function (on its first call), or
//! makes an instance. Some of this work is quadratic in the module's declarations, and some ends
//! the process when it does not fit (a code space, a list of types). So each module is first read
//! here, in steps of a few hundred microseconds between which limits apply, and V8's work is
//! estimated on the way. A refusal names the bound; compilers' output stays far below all of them.

use std::borrow::Cow;
use std::ops::Range;

use wasmparser::{
    BinaryReader, BinaryReaderError, Chunk, CompositeInnerType, FuncValidator,
    FuncValidatorAllocations, Operator, Parser, Payload, TypeRef, ValidPayload, Validator,
    ValidatorResources, WasmFeatures,
};

use super::types::{self, Group};

/// The largest module, in bytes. V8 takes a few milliseconds for each MiB, which cannot be
/// interrupted.
pub const MODULE: usize = 16 << 20;

/// The largest function body, in bytes: the functions of interpreters have a tenth of that.
const BODY: usize = 1 << 20;

/// The most entries of each kind in a module.
const TYPES: u32 = 20_000;
const IMPORTS: u32 = 10_000;
const FUNCTIONS: u32 = 200_000;
const EXPORTS: u32 = 50_000;
const GLOBALS: u32 = 50_000;
const TAGS: u32 = 1_000;
const TABLES: u32 = 1_000;
const MEMORIES: u32 = 16;
const SEGMENTS: u32 = 100_000;

/// The most places in all tables of an instance together, and the most that its segments write when
/// it is made.
const PLACES: u64 = 1 << 20;

/// Limits of a function's type.
const PARAMETERS: usize = 255;
const RESULTS: usize = 64;

/// The most work for a function. Where control flow branches or merges, and at calls, the compiler
/// goes through every local and every value on the stack, which count as one each; for other
/// instructions it searches for one of them. Each takes a few nanoseconds, and a few bytes of
/// code at worst.
const WORK: u64 = 1 << 24;

/// The number of values that a search covers per unit of work.
const VALUES_PER_SEARCH: u64 = 16;

/// The most values that the compiler may have to remember at once, for nested blocks.
const REMEMBERED: u64 = 1 << 21;

/// The work of one step, which takes a few hundred microseconds.
const STEP: u64 = 1 << 14;

/// The supported WebAssembly features: version 3 of the standard, and the exceptions that preceded
/// it. Threads are excluded, so that no memory is shared.
const FEATURES: WasmFeatures = WasmFeatures::WASM3.union(WasmFeatures::LEGACY_EXCEPTIONS);

/// Returns whether the validator accepts the module as a whole, in a single pass.
#[cfg(fuzzing)]
pub fn is_valid(bytes: &[u8]) -> bool {
    Validator::new_with_features(FEATURES).validate_all(bytes).is_ok()
}

/// The reason why a module is refused.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ModuleRefused {
    #[error("{message} @+{offset}")]
    Invalid { message: String, offset: u64 },
    #[error("memory that is shared between threads is not supported; remove \"shared\"")]
    Shared,
    #[error("it has more than {most} {what}")]
    TooMany { what: Cow<'static, str>, most: u64 },
    #[error("its function {0} is too complex to compile; split it")]
    TooComplex(u32),
    #[error("{0}")]
    Types(#[from] types::TypesRefused),
}

impl From<BinaryReaderError> for ModuleRefused {
    fn from(error: BinaryReaderError) -> Self {
        if error.message().contains("threads must be enabled for shared") {
            return Self::Shared;
        }
        Self::Invalid { message: error.message().to_owned(), offset: error.offset() }
    }
}

/// The sizes of a module that may be compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModuleSizes {
    /// Bytes of the module, and of the code in it.
    pub size: usize,
    pub code: usize,
    /// Number of functions, types, imports and so on.
    pub entries: usize,
}

/// A check in progress.
pub struct Check {
    parser: Parser,
    validator: Validator,
    at: usize,
    body: Option<FunctionBody>,
    allocations: FuncValidatorAllocations,
    places: u64,
    imports: u32,
    groups: Vec<Group>,
    sizes: ModuleSizes,
}

/// A function whose body is partly checked.
struct FunctionBody {
    validator: FuncValidator<ValidatorResources>,
    at: usize,
    end: usize,
    work: u64,
}

impl Check {
    pub(crate) fn new() -> Self {
        let mut parser = Parser::new(0);
        // The parser has its own feature set, which contains everything by default.
        parser.set_features(FEATURES);
        Self {
            parser,
            validator: Validator::new_with_features(FEATURES),
            at: 0,
            body: None,
            allocations: FuncValidatorAllocations::default(),
            places: 0,
            imports: 0,
            groups: Vec::new(),
            sizes: ModuleSizes::default(),
        }
    }

    /// Checks the next part. Returns `None` while there is more to check.
    ///
    /// # Arguments
    /// * `bytes` - the whole module, the same in each call.
    ///
    /// # Errors
    /// Fails if the module may not be compiled; do not call `step` again after that.
    pub fn step(&mut self, bytes: &[u8]) -> Result<Option<ModuleSizes>, ModuleRefused> {
        let mut left = STEP;
        while left > 0 {
            let done = match self.body.take() {
                Some(body) => self.check_body(body, bytes, left)?,
                None => match self.next(bytes)? {
                    Some(done) => done,
                    None => return Ok(Some(self.sizes)),
                },
            };
            left = left.saturating_sub(done);
        }
        Ok(None)
    }

    /// Returns the types that V8 will have to remember for the module.
    pub(crate) fn into_types(self) -> Vec<Group> {
        self.groups
    }

    /// Checks the next section, or the next function's header. Returns its work, or `None` at the
    /// end.
    fn next(&mut self, bytes: &[u8]) -> Result<Option<u64>, ModuleRefused> {
        let (consumed, payload) = match self.parser.parse(&bytes[self.at..], true)? {
            Chunk::Parsed { consumed, payload } => (consumed, payload),
            Chunk::NeedMoreData(_) => {
                unreachable!("the parser has been told that no more bytes follow")
            }
        };
        self.at += consumed;
        self.count(&payload, bytes)?;
        match self.validator.payload(&payload)? {
            ValidPayload::Func(function, body) => {
                let Range { start, end } = body.range();
                let (start, end) = (place(start), place(end));
                at_most("bytes in a function", end - start, BODY)?;
                let mut validator = function.into_validator(std::mem::take(&mut self.allocations));
                let mut reader = BinaryReader::new(&bytes[start..end], start as u64);
                reader.set_features(FEATURES);
                validator.read_locals(&mut reader)?;
                let at = place(reader.original_position());
                self.sizes.code += end - start;
                self.body = Some(FunctionBody { validator, at, end, work: 0 });
                Ok(Some(1))
            }
            ValidPayload::End(_) => {
                self.sizes.size = bytes.len();
                Ok(None)
            }
            // A section of entries has been read.
            ValidPayload::Ok | ValidPayload::Parser(_) => Ok(Some(consumed as u64 / 4)),
        }
    }

    /// Checks a section against its bounds before it is processed further.
    fn count(&mut self, payload: &Payload<'_>, bytes: &[u8]) -> Result<(), ModuleRefused> {
        let mut count = |what: &'static str, count: u32, most: u32| {
            self.sizes.entries += count as usize;
            at_most(what, count as usize, most as usize)
        };
        match payload {
            Payload::TypeSection(section) => {
                count("types", section.count(), TYPES)?;
                for group in section.clone() {
                    for ty in group?.types() {
                        if let CompositeInnerType::Func(function) = &ty.composite_type.inner {
                            at_most(
                                "parameters of a function",
                                function.params().len(),
                                PARAMETERS,
                            )?;
                            at_most("results of a function", function.results().len(), RESULTS)?;
                        }
                    }
                }
                self.groups = types::groups(section, bytes)?;
                let all: u64 = self.groups.iter().map(|group| u64::from(group.types)).sum();
                at_most("types", place(all), TYPES as usize)
            }
            Payload::ImportSection(section) => {
                count("imports", section.count(), IMPORTS)?;
                for import in section.clone().into_imports() {
                    self.imports += 1;
                    at_most("imports", self.imports as usize, IMPORTS as usize)?;
                    if let TypeRef::Memory(memory) = import?.ty
                        && memory.shared
                    {
                        return Err(ModuleRefused::Shared);
                    }
                }
                Ok(())
            }
            Payload::FunctionSection(section) => count("functions", section.count(), FUNCTIONS),
            Payload::TableSection(section) => {
                count("tables", section.count(), TABLES)?;
                for table in section.clone() {
                    self.places = self.places.saturating_add(table?.ty.initial);
                }
                self.check_table_size()
            }
            Payload::MemorySection(section) => {
                count("memories", section.count(), MEMORIES)?;
                section.clone().into_iter().try_for_each(|memory| match memory {
                    Ok(memory) if memory.shared => Err(ModuleRefused::Shared),
                    _ => Ok(()),
                })
            }
            Payload::TagSection(section) => count("tags", section.count(), TAGS),
            Payload::GlobalSection(section) => count("globals", section.count(), GLOBALS),
            Payload::ExportSection(section) => count("exports", section.count(), EXPORTS),
            Payload::ElementSection(section) => {
                count("segments", section.count(), SEGMENTS)?;
                for element in section.clone() {
                    let places = match element?.items {
                        wasmparser::ElementItems::Functions(items) => items.count(),
                        wasmparser::ElementItems::Expressions(_, items) => items.count(),
                    };
                    self.places += u64::from(places);
                }
                self.check_table_size()
            }
            Payload::DataSection(section) => count("segments", section.count(), SEGMENTS),
            Payload::CodeSectionStart { count: functions, .. } => {
                count("functions", *functions, FUNCTIONS)
            }
            _ => Ok(()),
        }
    }

    fn check_table_size(&self) -> Result<(), ModuleRefused> {
        if self.places > PLACES {
            return Err(ModuleRefused::TooMany { what: "table elements".into(), most: PLACES });
        }
        Ok(())
    }

    /// Checks instructions, and returns their work.
    fn check_body(
        &mut self,
        mut body: FunctionBody,
        bytes: &[u8],
        most: u64,
    ) -> Result<u64, ModuleRefused> {
        let mut reader = BinaryReader::new(&bytes[body.at..body.end], body.at as u64);
        reader.set_features(FEATURES);
        let mut done = 0;
        while !reader.eof() && done < most {
            let position = reader.original_position();
            let work = work(&reader, &mut body.validator)?;
            reader.visit_operator(&mut body.validator.visitor(position))??;
            done += work;
        }
        body.work += done;
        if body.work > WORK {
            return Err(ModuleRefused::TooComplex(body.validator.index()));
        }
        if reader.eof() {
            reader.finish_expression(&body.validator.visitor(reader.original_position()))?;
            self.allocations = body.validator.into_allocations();
        } else {
            body.at = place(reader.original_position());
            self.body = Some(body);
        }
        Ok(done)
    }
}

/// Returns V8's work for the next instruction.
fn work(
    reader: &BinaryReader<'_>,
    validator: &mut FuncValidator<ValidatorResources>,
) -> Result<u64, ModuleRefused> {
    let places = u64::from(validator.len_locals()) + u64::from(validator.operand_stack_height());
    match reader.clone().read_u8()? {
        // Control instructions, and branches on references.
        0x02..=0x19 | 0x1f | 0xd5 | 0xd6 | 0xfb => {}
        // Instructions that compile to calls: memory growth, tables, bulk memory.
        0x25 | 0x26 | 0x40 | 0xd2 | 0xfc => return Ok(1 + places),
        _ => return Ok(1 + places / VALUES_PER_SEARCH),
    }
    let position = reader.original_position();
    let operator = reader.peek_operator(&validator.visitor(position))?;
    let moved = match operator.operator_arity(validator) {
        Some((taken, given)) => u64::from(taken) + u64::from(given),
        None => 0,
    };
    Ok(match operator {
        Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::If { .. }
        | Operator::Else
        | Operator::End
        | Operator::Try { .. }
        | Operator::TryTable { .. }
        | Operator::Catch { .. }
        | Operator::CatchAll
        | Operator::Delegate { .. }
        | Operator::Br { .. }
        | Operator::BrIf { .. }
        | Operator::BrOnNull { .. }
        | Operator::BrOnNonNull { .. }
        | Operator::BrOnCast { .. }
        | Operator::BrOnCastFail { .. } => {
            let remembered = places * u64::from(validator.control_stack_height());
            if remembered > REMEMBERED {
                return Err(ModuleRefused::TooComplex(validator.index()));
            }
            1 + places + moved
        }
        Operator::BrTable { targets } => {
            let (targets, blocks) =
                (u64::from(targets.len()), u64::from(validator.control_stack_height()));
            1 + targets * (1 + moved) + targets.min(blocks) * places
        }
        _ => 1 + places + moved,
    })
}

fn at_most(what: &'static str, count: usize, most: usize) -> Result<(), ModuleRefused> {
    if count > most {
        return Err(ModuleRefused::TooMany { what: what.into(), most: most as u64 });
    }
    Ok(())
}

/// Converts an offset in a module to an index.
fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("an offset in a module in memory fits into a `usize`")
}

#[cfg(test)]
mod tests;
