//! Decides whether a module may be compiled. A module may be compiled if the module is valid, and
//! if both the work that V8 does for it and the memory that V8 takes for it are bounded.
//!
//! V8 cannot be terminated while it validates a module, compiles a function (on the function's
//! first call), or makes an instance. Some of this work is quadratic in the module's declarations,
//! and V8 ends the process if a code space or the list of types overflows. So [`Check`] reads each
//! module before V8 does, in steps of a few hundred microseconds between which limits apply, and
//! estimates V8's work. A refusal names the bound that the module exceeds; the output of compilers
//! stays far below every bound.

use std::borrow::Cow;
use std::ops::Range;

use wasmparser::{
    BinaryReader, BinaryReaderError, Chunk, CompositeInnerType, FuncValidator,
    FuncValidatorAllocations, Operator, Parser, Payload, TypeRef, ValidPayload, Validator,
    ValidatorResources, WasmFeatures,
};

use super::types::{self, Group};

/// Maximum size of a module, in bytes. V8 cannot be interrupted while it reads a module, which
/// takes a few milliseconds for each MiB.
pub const MODULE: usize = 16 << 20;

/// Maximum size of a function's body, in bytes. The longest functions of interpreters have a tenth
/// of this size.
const BODY: usize = 1 << 20;

// The maximum number of entries of each kind in a module.
const TYPES: u32 = 20_000;
const IMPORTS: u32 = 10_000;
const FUNCTIONS: u32 = 200_000;
const EXPORTS: u32 = 50_000;
const GLOBALS: u32 = 50_000;
const TAGS: u32 = 1_000;
const TABLES: u32 = 1_000;
const MEMORIES: u32 = 16;
const SEGMENTS: u32 = 100_000;

/// Maximum number of elements in all tables and all element segments of a module together. V8
/// initializes all of them when it makes an instance.
const TABLE_ELEMENTS: u64 = 1 << 20;

// The maximum numbers of parameters and results of a function.
const PARAMETERS: usize = 255;
const RESULTS: usize = 64;

/// Maximum work for a function, in units. Where control flow branches or merges, and at calls, the
/// compiler visits every local and every value on the stack, and each visit counts as one unit. For
/// another instruction, the compiler searches the locals and values for one of them. A unit takes a
/// few nanoseconds and produces at most a few bytes of code.
const WORK: u64 = 1 << 24;

/// Number of values that a search covers per unit of work.
const VALUES_PER_SEARCH: u64 = 16;

/// Maximum number of values that the compiler may have to remember for all nested blocks together.
const REMEMBERED: u64 = 1 << 21;

/// Work of one step, in units. A step takes a few hundred microseconds.
const STEP: u64 = 1 << 14;

/// The supported WebAssembly features: version 3 of the standard, and the exceptions of the
/// proposal that preceded that version. Threads are excluded, so that no memory is shared.
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
    #[error("the module has more than {max} {what}")]
    TooMany { what: Cow<'static, str>, max: u64 },
    #[error("function {0} of the module is too complex to compile; split the function")]
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
    /// Size of the module, in bytes.
    pub size: usize,
    /// Size of all function bodies, in bytes.
    pub code: usize,
    /// Number of functions, types, imports and other declarations.
    pub entries: usize,
}

/// A check in progress.
pub struct Check {
    parser: Parser,
    validator: Validator,
    /// The index of the next byte to read.
    at: usize,
    body: Option<FunctionBody>,
    allocations: FuncValidatorAllocations,
    /// Number of elements in the tables and element segments so far.
    table_elements: u64,
    imports: u32,
    groups: Vec<Group>,
    sizes: ModuleSizes,
}

/// A function body that has been checked in part.
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
            table_elements: 0,
            imports: 0,
            groups: Vec::new(),
            sizes: ModuleSizes::default(),
        }
    }

    /// Checks the next part of the module. Returns `None` until the whole module has been checked.
    ///
    /// # Arguments
    /// * `bytes` - the whole module, which must be the same in each call.
    ///
    /// # Errors
    /// Fails if the module may not be compiled. The caller must not call `step` again after an
    /// error.
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

    /// Checks the next section, or the locals of the next function. Returns the work of this check,
    /// or `None` at the end of the module.
    fn next(&mut self, bytes: &[u8]) -> Result<Option<u64>, ModuleRefused> {
        let (consumed, payload) = match self.parser.parse(&bytes[self.at..], true)? {
            Chunk::Parsed { consumed, payload } => (consumed, payload),
            Chunk::NeedMoreData(_) => {
                unreachable!("the parser needs more data although it has the whole module")
            }
        };
        self.at += consumed;
        self.count(&payload, bytes)?;
        match self.validator.payload(&payload)? {
            ValidPayload::Func(function, body) => {
                let Range { start, end } = body.range();
                let (start, end) = (to_index(start), to_index(end));
                at_most("bytes in a function", end - start, BODY)?;
                let mut validator = function.into_validator(std::mem::take(&mut self.allocations));
                let mut reader = BinaryReader::new(&bytes[start..end], start as u64);
                reader.set_features(FEATURES);
                validator.read_locals(&mut reader)?;
                let at = to_index(reader.original_position());
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

    /// Checks a section against the bounds before the validator reads the section.
    fn count(&mut self, payload: &Payload<'_>, bytes: &[u8]) -> Result<(), ModuleRefused> {
        let mut count = |what: &'static str, count: u32, max: u32| {
            self.sizes.entries += count as usize;
            at_most(what, count as usize, max as usize)
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
                at_most("types", to_index(all), TYPES as usize)
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
                    self.table_elements = self.table_elements.saturating_add(table?.ty.initial);
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
                    let count = match element?.items {
                        wasmparser::ElementItems::Functions(items) => items.count(),
                        wasmparser::ElementItems::Expressions(_, items) => items.count(),
                    };
                    self.table_elements += u64::from(count);
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
        if self.table_elements > TABLE_ELEMENTS {
            return Err(ModuleRefused::TooMany {
                what: "table elements".into(),
                max: TABLE_ELEMENTS,
            });
        }
        Ok(())
    }

    /// Checks instructions of a function until their work reaches `max` or the function ends.
    /// Returns the work of the checked instructions.
    fn check_body(
        &mut self,
        mut body: FunctionBody,
        bytes: &[u8],
        max: u64,
    ) -> Result<u64, ModuleRefused> {
        let mut reader = BinaryReader::new(&bytes[body.at..body.end], body.at as u64);
        reader.set_features(FEATURES);
        let mut done = 0;
        while !reader.eof() && done < max {
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
            body.at = to_index(reader.original_position());
            self.body = Some(body);
        }
        Ok(done)
    }
}

/// Returns the units of work that V8 does for the next instruction.
fn work(
    reader: &BinaryReader<'_>,
    validator: &mut FuncValidator<ValidatorResources>,
) -> Result<u64, ModuleRefused> {
    let values = u64::from(validator.len_locals()) + u64::from(validator.operand_stack_height());
    match reader.clone().read_u8()? {
        // Control instructions, and branches on references.
        0x02..=0x19 | 0x1f | 0xd5 | 0xd6 | 0xfb => {}
        // These instructions for memory growth, tables and bulk memory compile to calls.
        0x25 | 0x26 | 0x40 | 0xd2 | 0xfc => return Ok(1 + values),
        _ => return Ok(1 + values / VALUES_PER_SEARCH),
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
            let remembered = values * u64::from(validator.control_stack_height());
            if remembered > REMEMBERED {
                return Err(ModuleRefused::TooComplex(validator.index()));
            }
            1 + values + moved
        }
        Operator::BrTable { targets } => {
            let (targets, blocks) =
                (u64::from(targets.len()), u64::from(validator.control_stack_height()));
            1 + targets * (1 + moved) + targets.min(blocks) * values
        }
        _ => 1 + values + moved,
    })
}

fn at_most(what: &'static str, count: usize, max: usize) -> Result<(), ModuleRefused> {
    if count > max {
        return Err(ModuleRefused::TooMany { what: what.into(), max: max as u64 });
    }
    Ok(())
}

/// Converts an offset in a module to an index.
fn to_index(offset: u64) -> usize {
    usize::try_from(offset).expect("the offset in the module does not fit into a `usize`")
}

#[cfg(test)]
mod tests;
