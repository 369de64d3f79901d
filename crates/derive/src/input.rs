//! The parsed input of a derive.

use proc_macro::{Delimiter, Ident, Span, TokenStream, TokenTree};

/// A struct without parameters.
pub(crate) struct StructInput {
    pub(crate) name: Ident,
    /// Whether it has `repr(C)` or `repr(transparent)`.
    pub(crate) has_fixed_repr: bool,
    /// The types of its fields.
    pub(crate) fields: Vec<TokenStream>,
}

/// The message and the location of an error.
type DeriveError = (&'static str, Span);

const UNSUPPORTED: &str = "only structs without parameters are supported; for others use the derive of \
    `treepie::bytemuck` with #[bytemuck(crate = \"treepie::bytemuck\")]";

impl StructInput {
    pub(crate) fn parse(input: TokenStream) -> Result<Self, DeriveError> {
        let mut tokens = input.into_iter().peekable();
        let mut has_fixed_repr = false;
        loop {
            match tokens.next() {
                Some(TokenTree::Punct(punct)) if punct.as_char() == '#' => {
                    if let Some(TokenTree::Group(attribute)) = tokens.next() {
                        has_fixed_repr |= is_fixed_repr(attribute.stream());
                    }
                }
                Some(TokenTree::Ident(word)) if word.to_string() == "pub" => {
                    tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
                }
                Some(TokenTree::Ident(word)) if word.to_string() == "struct" => break,
                other => return Err((UNSUPPORTED, other.map_or_else(Span::call_site, |token| token.span()))),
            }
        }
        let Some(TokenTree::Ident(name)) = tokens.next() else { return Err((UNSUPPORTED, Span::call_site())) };
        let fields = match tokens.next() {
            Some(TokenTree::Group(fields)) => field_types(fields.stream(), fields.delimiter() == Delimiter::Brace)
                .ok_or((UNSUPPORTED, fields.span()))?,
            Some(TokenTree::Punct(end)) if end.as_char() == ';' => Vec::new(),
            _ => return Err((UNSUPPORTED, name.span())),
        };
        Ok(Self { name, has_fixed_repr, fields })
    }
}

/// Whether an attribute is `repr` with `C` or `transparent`.
fn is_fixed_repr(attribute: TokenStream) -> bool {
    let mut tokens = attribute.into_iter();
    let is_repr = matches!(tokens.next(), Some(TokenTree::Ident(word)) if word.to_string() == "repr");
    let Some(TokenTree::Group(list)) = tokens.next().filter(|_| is_repr) else { return false };
    let fixes = |token: TokenTree| matches!(token, TokenTree::Ident(word) if ["C", "transparent"].contains(&word.to_string().as_str()));
    list.stream().into_iter().any(fixes)
}

/// The types of fields, named or not.
fn field_types(fields: TokenStream, are_named: bool) -> Option<Vec<TokenStream>> {
    let mut tokens = fields.into_iter().peekable();
    let mut types = Vec::new();
    while tokens.peek().is_some() {
        while tokens.next_if(|token| is_punct(token, '#')).is_some() {
            tokens.next();
        }
        if tokens.next_if(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "pub")).is_some() {
            let is_scope = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis && is_visibility(group.stream()));
            tokens.next_if(is_scope);
        }
        if are_named {
            tokens.next()?;
            tokens.next_if(|token| is_punct(token, ':'))?;
        }
        let (mut depth, mut of_field, mut after_minus) = (0usize, Vec::new(), false);
        for token in tokens.by_ref() {
            match &token {
                TokenTree::Punct(punct) if punct.as_char() == ',' && depth == 0 => break,
                TokenTree::Punct(punct) if punct.as_char() == '<' => depth += 1,
                TokenTree::Punct(punct) if punct.as_char() == '>' && !after_minus => depth = depth.checked_sub(1)?,
                _ => {}
            }
            after_minus = is_punct(&token, '-');
            of_field.push(token);
        }
        if of_field.is_empty() {
            return None;
        }
        types.push(of_field.into_iter().collect());
    }
    Some(types)
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// Whether these are the contents of the parentheses of `pub(crate)` and the like, and not a tuple.
fn is_visibility(scope: TokenStream) -> bool {
    let first = scope.into_iter().next().map(|token| token.to_string());
    first.is_some_and(|word| ["crate", "super", "self", "in"].contains(&word.as_str()))
}
