//! Tests the check of modules with encodings that the tests assemble byte by byte.

use super::*;

fn number(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number % 128) as u8;
        number /= 128;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 128);
    }
}

fn section(id: u8, count: usize, content: &[u8]) -> Vec<u8> {
    let content = [&number(count), content].concat();
    [&[id][..], &number(content.len()), &content].concat()
}

fn module(sections: &[Vec<u8>]) -> Vec<u8> {
    [b"\0asm\x01\0\0\0", &sections.concat()[..]].concat()
}

/// Returns a module with one function that has neither parameters nor results.
fn function(locals: usize, code: &[u8]) -> Vec<u8> {
    let body = [&[1][..], &number(locals), &[0x7f], code, &[0x0b]].concat();
    let body = [&number(body.len()), &body[..]].concat();
    module(&[section(1, 1, &[0x60, 0, 0]), section(3, 1, &[0]), section(10, 1, &body)])
}

/// Checks a module and returns the number of steps and the result.
fn check(bytes: &[u8]) -> (usize, Result<ModuleSizes, ModuleRefused>) {
    let mut check = Check::new();
    for step in 1.. {
        match check.step(bytes) {
            Ok(None) => {}
            Ok(Some(sizes)) => return (step, Ok(sizes)),
            Err(refused) => return (step, Err(refused)),
        }
    }
    unreachable!("the check did not end")
}

fn too_many(what: &'static str, max: u64) -> Result<ModuleSizes, ModuleRefused> {
    Err(ModuleRefused::TooMany { what: what.into(), max })
}

#[test]
fn a_valid_module_passes_and_is_measured() {
    let (steps, sizes) = check(&function(1, &[0x01; 100]));
    let sizes = sizes.unwrap();
    assert_eq!((steps, sizes.code), (1, 104));
    assert!(sizes.memory() > sizes.size);
    assert_eq!(check(&module(&[])).1.unwrap().size, 8);
}

#[test]
fn a_long_function_is_validated_in_many_steps() {
    let (steps, sizes) = check(&function(1, &vec![0x01; 500_000]));
    assert!(steps >= 500_000 / STEP as usize, "{steps}");
    assert!(sizes.is_ok());
    let invalid = [&vec![0x01; 500_000][..], &[0x6a]].concat();
    assert!(matches!(check(&function(1, &invalid)), (2.., Err(ModuleRefused::Invalid { .. }))));
}

#[test]
fn a_malformed_module_is_refused_with_its_offset() {
    let at = |bytes: &[u8]| match check(bytes).1 {
        Err(ModuleRefused::Invalid { offset, .. }) => offset,
        other => panic!("{other:?}"),
    };
    assert_eq!(at(b""), 0);
    assert_eq!(at(b"\0asm\x02\0\0\0"), 4);
    assert_eq!(at(&[&module(&[])[..], &[1]].concat()), 9);
}

#[test]
fn shared_memory_is_refused() {
    assert_eq!(check(&module(&[section(5, 1, &[3, 1, 1])])).1, Err(ModuleRefused::Shared));
    assert_eq!(
        check(&module(&[section(2, 1, &[1, b'm', 1, b'm', 2, 3, 1, 1])])).1,
        Err(ModuleRefused::Shared)
    );
}

#[test]
fn the_lists_of_a_module_are_bounded() {
    let types = [0x60, 0, 0].repeat(20_001);
    assert_eq!(check(&module(&[section(1, 20_001, &types)])).1, too_many("types", 20_000));
    let import = [0, 0, 2, 0, 0];
    assert_eq!(
        check(&module(&[section(2, 10_001, &import.repeat(10_001))])).1,
        too_many("imports", 10_000)
    );
    let memories = [0, 0].repeat(17);
    assert_eq!(check(&module(&[section(5, 17, &memories)])).1, too_many("memories", 16));
    let tables: Vec<u8> = [&[0x70, 0][..], &number(1 << 15)].concat().repeat(33);
    assert_eq!(
        check(&module(&[section(4, 33, &tables)])).1,
        too_many("table elements", TABLE_ELEMENTS)
    );
    let many = [&[0x60][..], &number(256), &[0x7f; 256], &[0]].concat();
    assert_eq!(
        check(&module(&[section(1, 1, &many)])).1,
        too_many("parameters of a function", 255)
    );
    let many = [&[0x60, 0][..], &number(65), &[0x7f; 65]].concat();
    assert_eq!(check(&module(&[section(1, 1, &many)])).1, too_many("results of a function", 64));
    assert_eq!(
        check(&function(1, &vec![0x01; BODY])).1,
        too_many("bytes in a function", BODY as u64)
    );
    // All of these types are in one group.
    let group = [&[0x4e][..], &number(20_001), &types].concat();
    assert_eq!(check(&module(&[section(1, 1, &group)])).1, too_many("types", 20_000));
}

#[test]
fn a_function_with_many_blocks_and_many_locals_is_too_complex() {
    // Each `block end` makes the compiler visit all 40,000 locals.
    let few = function(40_000, &[0x02, 0x40, 0x0b].repeat(100));
    let many = function(40_000, &[0x02, 0x40, 0x0b].repeat(1_000));
    assert!(check(&few).1.is_ok());
    assert_eq!(check(&many).1, Err(ModuleRefused::TooComplex(0)));
}

#[test]
fn a_function_with_nested_blocks_and_a_high_stack_is_too_complex() {
    let nested = |depth: usize, values: usize| {
        [
            [0x41, 0].repeat(values),
            [0x03, 0x40].repeat(depth),
            vec![0x0b; depth],
            vec![0x1a; values],
        ]
        .concat()
    };
    assert!(check(&function(1, &nested(200, 1_000))).1.is_ok());
    assert_eq!(check(&function(1, &nested(2_000, 2_000))).1, Err(ModuleRefused::TooComplex(0)));
}

#[test]
fn a_function_with_many_calls_and_a_high_stack_is_too_complex() {
    let calls = |values: usize| {
        [[0x41, 0].repeat(values), [0x10, 0].repeat(4_000), vec![0x1a; values]].concat()
    };
    assert!(check(&function(1, &calls(1_000))).1.is_ok());
    assert_eq!(check(&function(1, &calls(10_000))).1, Err(ModuleRefused::TooComplex(0)));
}

#[test]
fn the_types_of_a_module_are_remembered_once() {
    let bytes = module(&[section(1, 3, &[0x60, 1, 0x7c, 4, 0x7c, 0x7d, 0x7e, 0x7f].repeat(3))]);
    let groups = |bytes: &[u8]| {
        let mut check = Check::new();
        while check.step(bytes).unwrap().is_none() {}
        check.into_types()
    };
    assert_eq!(groups(&bytes).len(), 3);
    let mut added = types::Added::default();
    types::remember(&groups(&bytes), &mut added, &"test".into()).unwrap();
    let before = added.count();
    types::remember(&groups(&bytes), &mut added, &"test".into()).unwrap();
    assert_eq!(added.count(), before);
    // A type that refers to another type differs between modules whose sections of types differ.
    let first = module(&[section(1, 2, &[0x60, 0, 0, 0x60, 1, 0x64, 0, 0])]);
    let second = module(&[section(1, 2, &[0x60, 0, 1, 0x7b, 0x60, 1, 0x64, 0, 0])]);
    let names = |bytes: &[u8]| {
        groups(bytes).into_iter().map(|group| format!("{group:?}")).collect::<Vec<_>>()
    };
    assert_ne!(names(&first)[1], names(&second)[1]);
    assert_eq!(names(&first), names(&first));
}

#[test]
fn a_module_that_uses_a_proposal_is_refused() {
    // Several imports share one module name in this encoding, which is a proposal.
    let compact = module(&[section(2, 1, &[0, 0, 0x7f, 1, 0, 3, 0x7f, 0])]);
    assert!(matches!(check(&compact).1, Err(ModuleRefused::Invalid { .. })));
}
