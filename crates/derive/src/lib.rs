//! `#[derive(Pod, Zeroable)]` for programs that depend on `treepie` alone.
//!
//! The derives of bytemuck name the crate `::bytemuck`, which a program only has if it depends on it directly. These
//! name `::treepie::bytemuck`, and implement the same traits after the same checks: each field has the trait, and for
//! `Pod` the representation is fixed (`repr(C)` or `repr(transparent)`) and has no padding. They accept structs without
//! parameters; for others use bytemuck's own, with `#[bytemuck(crate = "treepie::bytemuck")]`.
#![forbid(unsafe_code)]

mod input;

use proc_macro::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

use input::StructInput;

/// Plain data: any bits are a value, and there is no padding.
#[proc_macro_derive(Pod)]
pub fn pod(input: TokenStream) -> TokenStream {
    implement("Pod", input)
}

/// Zeroable data: all bytes zero are a value.
#[proc_macro_derive(Zeroable)]
pub fn zeroable(input: TokenStream) -> TokenStream {
    implement("Zeroable", input)
}

fn implement(name: &str, input: TokenStream) -> TokenStream {
    let input = match StructInput::parse(input) {
        Ok(input) => input,
        Err((what, span)) => return error(&format!("{name} cannot be derived: {what}"), span),
    };
    if name == "Pod" && !input.has_fixed_repr {
        return error("Pod needs a fixed representation: add #[repr(C)] or #[repr(transparent)]", input.name.span());
    }
    let mut checks = TokenStream::new();
    for field in &input.fields {
        // has_trait::<FIELD>();
        checks.extend(tokens("has_trait"));
        checks.extend(generic(field.clone()));
        checks.extend(tokens("();"));
    }
    if name == "Pod" {
        checks.extend(no_padding(&input));
    }
    let mut block = tokens(&format!("const fn has_trait<T: ::treepie::bytemuck::{name}>() {{}}"));
    block.extend(checks);
    let mut out = tokens("const _: () =");
    out.extend([TokenTree::from(Group::new(Delimiter::Brace, block))]);
    // The checks replace the promise of an implementation by hand.
    out.extend(tokens(&format!("; {} impl ::treepie::bytemuck::{name} for", "unsafe")));
    out.extend([TokenTree::from(input.name), Group::new(Delimiter::Brace, TokenStream::new()).into()]);
    out
}

/// `assert!(size_of::<NAME>() == 0 + size_of::<FIELD>() + ..., "...");`
fn no_padding(input: &StructInput) -> TokenStream {
    let size_of = |of: TokenStream| {
        let mut size = tokens("::core::mem::size_of");
        size.extend(generic(of));
        size.extend(tokens("()"));
        size
    };
    let mut condition = size_of(TokenTree::from(input.name.clone()).into());
    condition.extend(tokens("== 0"));
    for field in &input.fields {
        condition.extend(tokens("+"));
        condition.extend(size_of(field.clone()));
    }
    condition.extend(tokens(","));
    let why =
        format!("Pod cannot be derived: {} has padding; order its fields by size or add some that fill it", input.name);
    condition.extend([TokenTree::from(Literal::string(&why))]);
    let mut out = tokens("::core::assert!");
    out.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, condition))]);
    out.extend(tokens(";"));
    out
}

/// `::<TYPE>`
fn generic(of: TokenStream) -> TokenStream {
    let mut out = tokens("::<");
    out.extend(of);
    out.extend([TokenTree::from(Punct::new('>', Spacing::Alone))]);
    out
}

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("what this crate writes is Rust")
}

/// `::core::compile_error! { "..." }` at the span of the error.
fn error(what: &str, span: Span) -> TokenStream {
    let mut text = Literal::string(what);
    text.set_span(span);
    let mut group = Group::new(Delimiter::Brace, TokenTree::from(text).into());
    group.set_span(span);
    let mut bang = Punct::new('!', Spacing::Alone);
    bang.set_span(span);
    let name = Ident::new("compile_error", span);
    [TokenTree::from(name), bang.into(), group.into()].into_iter().collect()
}
