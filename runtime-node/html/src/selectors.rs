//! The selectors of a rewriter: their syntax, and the cost of matching them.
//!
//! Each start tag is compared with each selector, in a native call that cannot be terminated. A
//! call therefore parses a bounded number of bytes, which depends on the selectors. All bounds
//! derive from the text of the selectors, and hold for every document.

use lol_html::Selector;
use lol_html::errors::SelectorError;

/// The maximum length of a selector, in bytes.
const MAX_SELECTOR: usize = 4096;

/// The maximum number of opening parentheses in a selector. Each may add a level to the recursion
/// of the selector's parser.
const PARENTHESES: usize = 64;

/// The maximum number of parts that the selectors of a rewriter have together.
const PARTS: usize = 4096;

/// The number of bytes that a call parses if there are few selectors. Parsing this number of bytes
/// takes less than a millisecond.
const PIECE: usize = 32 << 10;

/// The minimum number of bytes that a call parses.
const SMALLEST_PIECE: usize = 64;

/// The number of parts that take as long to match as a start tag takes to parse.
const FEW_PARTS: usize = 64;

/// The maximum memory of a parser with few selectors, in bytes. It bounds the length of a token.
const MEMORY: usize = 3 << 20;

/// The maximum product of the memory of a parser and the number of parts. In the worst case, each
/// part looks at every byte of a token, at about a nanosecond for each: about 0.3 s in all.
const COMPARISONS: usize = 256 << 20;

/// The minimum size of the entry of an open element in the parser's list of such elements, in
/// bytes. The size of this list counts toward the limit of the parser.
const ENTRY: usize = 96;

/// The memory of an open element for each combinator of the selectors, in bytes. The parser does
/// not count it.
const COMBINATOR: usize = 32;

/// The maximum memory of all open elements for combinators, in bytes.
const COMBINATOR_MEMORY: usize = 8 << 20;

/// A selector that a rewriter does not accept.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSelector {
    #[error("the selector has {0} bytes; at most {MAX_SELECTOR} are allowed")]
    TooLong(usize),
    #[error("the selector has {0} opening parentheses; at most {PARENTHESES} are allowed")]
    TooDeep(usize),
    #[error(transparent)]
    Syntax(#[from] SelectorError),
}

/// Checks a selector.
///
/// # Errors
/// Returns an error if the selector is malformed, too complex, or not supported.
pub fn check(text: &str) -> Result<(), InvalidSelector> {
    parse(text).map(drop)
}

/// Parses a selector.
///
/// # Errors
/// Fails as [`check`] does.
pub(super) fn parse(text: &str) -> Result<Selector, InvalidSelector> {
    if text.len() > MAX_SELECTOR {
        return Err(InvalidSelector::TooLong(text.len()));
    }
    let parentheses = text.bytes().filter(|byte| *byte == b'(').count();
    if parentheses > PARENTHESES {
        return Err(InvalidSelector::TooDeep(parentheses));
    }
    Ok(text.parse()?)
}

/// Upper bounds on the cost of selectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Number of selectors.
    selectors: usize,
    /// Number of simple selectors: names, classes, attributes and so on.
    parts: usize,
    /// Number of combinators.
    combinators: usize,
    /// Whether a selector counts the elements of a type, such as `:first-of-type`.
    counts_types: bool,
}

impl Cost {
    /// Adds the cost of a selector.
    pub(super) fn add(&mut self, selector: &str) {
        let starts_part = |byte: &u8| matches!(byte, b'.' | b'#' | b'[' | b':' | b'(' | b',');
        let combinators = combinators(selector.trim().as_bytes());
        self.selectors += 1;
        self.parts += 1 + selector.bytes().filter(starts_part).count() + combinators;
        self.combinators += combinators;
        // An escape may spell the name of a pseudo-class.
        self.counts_types |= selector.contains("of-type") || selector.contains('\\');
    }

    /// Adds handlers that have no selector.
    pub(super) fn add_document(&mut self) {
        self.parts += 1;
    }

    /// Returns whether the selectors have too many parts.
    pub(super) fn is_too_high(self) -> bool {
        self.parts > PARTS
    }

    /// Returns whether there are selectors at all. Without selectors, the parser does not keep
    /// track of open elements.
    pub(super) fn has_selectors(self) -> bool {
        self.selectors > 0
    }

    /// Returns the maximum number of bytes to parse in one call.
    ///
    /// # Arguments
    /// * `tags` - number of start tags so far. Elements of all these types may be counted.
    pub(super) fn piece(self, tags: usize) -> usize {
        let types = if self.counts_types { tags } else { 0 };
        let weight = 1 + (self.parts + types) / FEW_PARTS;
        (PIECE / weight).max(SMALLEST_PIECE)
    }

    /// Returns the memory limit of a parser with these selectors, in bytes.
    pub(super) fn memory_limit(self) -> usize {
        let open = COMBINATOR_MEMORY / (COMBINATOR * self.combinators.max(1));
        (COMPARISONS / self.parts.max(1)).min(ENTRY * open).min(MEMORY)
    }

    /// Returns the maximum number of open elements.
    pub(super) fn depth(self) -> usize {
        self.memory_limit() / ENTRY
    }

    /// Returns the memory of the compiled selectors, in bytes.
    pub(super) fn compiled_memory(self) -> usize {
        // An instruction, its conditions, and their strings.
        512 * self.parts
    }

    /// Returns the memory that an open element takes in addition to what the limit of the parser
    /// counts, in bytes: the counter of elements with its name, and the selectors that it matches
    /// or begins to match.
    pub(super) fn open_element_memory(self) -> usize {
        80 + COMBINATOR * self.combinators + self.selectors / 4
    }

    /// Returns the memory that a start tag takes until the end of the document, in bytes.
    pub(super) fn start_tag_memory(self) -> usize {
        if self.counts_types { 128 } else { 0 }
    }
}

/// Returns an upper bound on the number of combinators in a selector: the number of gaps in it.
fn combinators(text: &[u8]) -> usize {
    let is_gap = |byte: u8| byte.is_ascii_whitespace() || byte == b'>';
    // A gap beside a comma is not a combinator, unless the comma is escaped and part of a name.
    let has_no_escape = !text.contains(&b'\\');
    let (mut count, mut before) = (0, b',');
    let mut bytes = text.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if !is_gap(byte) {
            before = byte;
        } else if !bytes.peek().is_some_and(|next| is_gap(*next)) {
            let is_beside_comma = before == b',' || bytes.peek() == Some(&b',');
            count += usize::from(!(has_no_escape && is_beside_comma));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(selectors: &[&str]) -> Cost {
        let mut cost = Cost::default();
        selectors.iter().for_each(|selector| cost.add(selector));
        cost
    }

    #[test]
    fn the_parts_of_a_selector_are_counted() {
        let parts = |selector| cost(&[selector]).parts;
        assert_eq!([parts("a"), parts("a.b#c[d]"), parts("a,b"), parts(" a ")], [1, 4, 2, 1]);
        assert_eq!(parts("a > b c:not(.d)"), 6);
        let combinators = |selector| cost(&[selector]).combinators;
        assert_eq!([combinators("a"), combinators(" a b >c > d\n>e")], [0, 4]);
        assert_eq!([combinators("a, b ,c"), combinators("a\\, b")], [0, 1]);
    }

    #[test]
    fn selectors_that_count_types_are_recognized() {
        for counts in ["p:first-of-type", "p:nth-of-type(2)", r"p:first-\6f f-type"] {
            assert!(cost(&["b", counts]).counts_types, "{counts}");
        }
        assert!(!cost(&["p:first-child", "p:nth-child(2)"]).counts_types);
    }

    #[test]
    fn a_selector_that_is_too_long_or_too_deep_is_refused() {
        assert!(parse(&"a".repeat(MAX_SELECTOR)).is_ok());
        assert_eq!(
            parse(&"a".repeat(MAX_SELECTOR + 1)).unwrap_err(),
            InvalidSelector::TooLong(4097)
        );
        let deep = format!("{}a{}", ":not(".repeat(65), ")".repeat(65));
        assert_eq!(parse(&deep).unwrap_err(), InvalidSelector::TooDeep(65));
        let nested = format!("{}a{}", ":not(".repeat(64), ")".repeat(64));
        // The parser returns, whether or not it accepts the selector.
        let _either = parse(&nested);
    }

    #[test]
    fn more_selectors_mean_shorter_pieces_and_shorter_tokens() {
        assert_eq!((cost(&["a"]).piece(0), cost(&["a"]).memory_limit()), (PIECE, MEMORY));
        let many = cost(&vec!["a"; 4096]);
        assert!(!many.is_too_high());
        assert_eq!((many.piece(0), many.memory_limit()), (504, 64 << 10));
        assert!(cost(&vec!["a"; 4097]).is_too_high());
        let combines = cost(&vec!["a b"; 1000]);
        assert_eq!(
            (combines.depth(), combines.depth() * combines.open_element_memory()),
            (262, 8_470_460)
        );
        let counts = cost(&["a:first-of-type"]);
        assert_eq!([counts.piece(0), counts.piece(1 << 20)], [PIECE, SMALLEST_PIECE]);
    }
}
