#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Expr, Ident, ItemFn, LitStr, Token};

/// Records the entries and exits of a function or method while tracing is on.
///
/// The record's name is the path of the function's module and its name, or `name`. `arg` is an
/// expression over the parameters that converts to `u64` with `as`. It is evaluated at the entry,
/// only while tracing is on.
///
/// ```text
/// #[traced]
/// fn poll() {}
///
/// #[traced(name = "uart: send", arg = bytes.len())]
/// fn send(bytes: &[u8]) {}
/// ```
///
/// Exits are recorded on every way out of the function: `return`, `?`, and an unwinding panic.
/// An `async` function is refused, because it is left at each `await`; a `const` function is
/// refused, because it may run in the compiler.
#[proc_macro_attribute]
pub fn traced(
    options: proc_macro::TokenStream,
    function: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    expand(options.into(), function.into()).into()
}

fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let traced = parse_and_trace(options, function.clone());
    traced.unwrap_or_else(|error| {
        // The function stays, so that the compiler does not report its absence too.
        let error = error.into_compile_error();
        quote! { #error #function }
    })
}

fn parse_and_trace(options: TokenStream, function: TokenStream) -> syn::Result<TokenStream> {
    let options = Options::parse.parse2(options)?;
    let mut function: ItemFn = syn::parse2(function)
        .map_err(|error| syn::Error::new(error.span(), "`traced` needs a function with a body"))?;
    if let Some(keyword) = function.sig.asyncness {
        let text = "an async function cannot be traced: it is left at each await; \
            use `trace_scope!` in the parts between";
        return Err(syn::Error::new(keyword.span, text));
    }
    if let Some(keyword) = function.sig.constness {
        let text = "a const function cannot be traced: it may run in the compiler";
        return Err(syn::Error::new(keyword.span, text));
    }
    let ident = function.sig.ident.to_string();
    let ident = ident.trim_start_matches("r#");
    let name = match &options.name {
        Some(name) => quote! { #name },
        None => quote! { ::core::concat!(::core::module_path!(), "::", #ident) },
    };
    let argument = options.argument.iter();
    let scope = quote! { ::nostall_trace::trace_scope!(#name #(, #argument)*); };
    function.block.stmts.insert(0, syn::parse2(scope)?);
    Ok(quote! { #function })
}

/// Options of the attribute.
#[derive(Default)]
struct Options {
    name: Option<LitStr>,
    argument: Option<Expr>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            let twice = match &*key.to_string() {
                "name" => options.name.replace(input.parse()?).is_some(),
                "arg" => options.argument.replace(input.parse()?).is_some(),
                _ => {
                    let text = "`traced` has the options `name = \"...\"` and `arg = ...`";
                    return Err(syn::Error::new(key.span(), text));
                }
            };
            if twice {
                return Err(syn::Error::new(
                    key.span(),
                    format!("`{key}` is there twice"),
                ));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(options: TokenStream, function: TokenStream) -> String {
        expand(options, function).to_string()
    }

    #[test]
    fn a_refused_function_gives_one_error_that_says_what_to_do() {
        for (options, function, expected) in [
            (
                quote! {},
                quote! { async fn f() {} },
                "use `trace_scope!` in the parts between",
            ),
            (
                quote! {},
                quote! { const fn f() {} },
                "it may run in the compiler",
            ),
            (
                quote! {},
                quote! { struct S; },
                "needs a function with a body",
            ),
            (
                quote! {},
                quote! { fn f(); },
                "needs a function with a body",
            ),
            (
                quote! { nam = "x" },
                quote! { fn f() {} },
                "`name = \\\"...\\\"` and `arg = ...`",
            ),
            (
                quote! { arg = 1, arg = 2 },
                quote! { fn f() {} },
                "`arg` is there twice",
            ),
            (
                quote! { name = 3 },
                quote! { fn f() {} },
                "expected string literal",
            ),
        ] {
            let text = expanded(options, function.clone());
            assert!(
                text.contains("compile_error") && text.contains(expected),
                "{text}"
            );
            assert!(text.ends_with(&function.to_string()), "{text}");
        }
    }

    #[test]
    fn the_scope_is_the_first_statement_and_the_rest_stays() {
        let function = quote! { #[inline] pub(crate) unsafe fn f<T: Copy>(&self, t: T) -> T { t } };
        let text = expanded(quote! { name = "g", arg = self.len }, function);
        let expected = quote! {
            #[inline] pub(crate) unsafe fn f<T: Copy>(&self, t: T) -> T {
                ::nostall_trace::trace_scope!("g", self.len);
                t
            }
        };
        assert_eq!(text, expected.to_string());
    }
}
