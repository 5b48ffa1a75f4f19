//! No circle between the source files of a crate: no file depends on a file that depends on it.
//!
//! A name counts as that of the file which defines it, so that a `mod.rs` can re-export the names
//! of its children. A method that another file calls on a value does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Item, Meta, Token, UseTree};

use crate::common::{crate_folders, root};

/// Architectures of the kernel, which has a folder for each.
const ARCHITECTURES: [&str; 3] = ["x86_64", "riscv64", "aarch64"];

type Names = Vec<String>;

/// The modules of one crate on one architecture, each under its path.
struct Modules {
    architecture: &'static str,
    modules: BTreeMap<Names, Module>,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    defined: BTreeSet<String>,
    /// Imported and re-exported names, with their paths.
    named: BTreeMap<String, Names>,
    /// Modules above whose names are all imported.
    parents: Vec<Names>,
    /// Paths in the code.
    used: BTreeSet<Names>,
}

impl Modules {
    /// Reads `file`, which is module `path`, and the files of its modules.
    fn read(&mut self, path: &[String], file: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let items = syn::parse_file(&text).unwrap().items;
        self.items(path, file, items);
    }

    fn items(&mut self, path: &[String], file: &Path, items: Vec<Item>) {
        let mut module = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        for item in items {
            match item {
                Item::Mod(inner) if !is_left_out(&inner.attrs, self.architecture) => {
                    let name = inner.ident.to_string();
                    let child = [path, slice::from_ref(&name)].concat();
                    match inner.content {
                        Some((_, items)) => self.items(&child, file, items),
                        None => self.read(&child, &child_file(file, &name, &inner.attrs)),
                    }
                }
                Item::Use(item) if !is_left_out(&item.attrs, self.architecture) => {
                    let is_private = matches!(item.vis, syn::Visibility::Inherited);
                    module.import(&mut Vec::new(), &item.tree, is_private);
                }
                Item::Mod(_) | Item::Use(_) => {}
                item => module.define(&item, self.architecture),
            }
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// Returns the file that defines the item which `path` names in module `at`; `None` for
    /// another crate's, and for a module.
    fn file_of(&self, at: &[String], path: &[String]) -> Option<&Path> {
        let mut at = at.to_vec();
        let mut rest = path;
        while let Some((name, after)) = rest.split_first() {
            let module = self.modules.get(&at)?;
            let child = [&at[..], slice::from_ref(name)].concat();
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => _ = at.pop()?,
                _ if module.defined.contains(name) => return Some(&module.file),
                _ if self.modules.contains_key(&child) => at = child,
                _ => {
                    // Another crate's, if it is imported from a path that begins with its name.
                    let imported = module.named.get(name).filter(|to| to[0] != *name);
                    if let Some(to) = imported {
                        return self.file_of(&at, &[to, after].concat());
                    }
                    let mut parents = module.parents.iter();
                    return parents.find_map(|parent| self.file_of(&at, &[parent, rest].concat()));
                }
            }
            rest = after;
        }
        None
    }

    /// Returns the files that each file takes names from, with those names.
    fn arrows(&self) -> BTreeMap<&Path, BTreeMap<&Path, Names>> {
        let mut arrows = BTreeMap::<_, BTreeMap<_, Names>>::new();
        for (at, module) in &self.modules {
            for used in &module.used {
                if let Some(to) = self.file_of(at, used).filter(|to| *to != module.file) {
                    let from = arrows.entry(&*module.file).or_default();
                    from.entry(to).or_default().push(used.join("::"));
                }
            }
        }
        arrows
    }

    /// Returns a line for each arrow that is part of a circle.
    fn circles(&self) -> Vec<String> {
        let arrows = self.arrows();
        let reaches = |from: &Path, to: &Path| {
            let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
            while let Some(file) = left.pop() {
                let next = arrows.get(file).into_iter().flat_map(BTreeMap::keys);
                left.extend(next.filter(|file| seen.insert(**file)));
            }
            seen.contains(to)
        };
        let mut lines = Vec::new();
        for (from, targets) in &arrows {
            for (to, names) in targets.iter().filter(|(to, _)| reaches(to, from)) {
                let (from, to, names) = (from.display(), to.display(), names.join(", "));
                lines.push(format!("{from} -> {to}: {names}"));
            }
        }
        lines
    }
}

impl Module {
    fn import(&mut self, prefix: &mut Names, tree: &UseTree, is_private: bool) {
        let (name, alias) = match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(prefix, &path.tree, is_private);
                prefix.pop();
                return;
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree, is_private);
                }
                return;
            }
            UseTree::Glob(_) => {
                let is_parent = prefix.iter().all(|name| name == "super");
                assert!(is_parent, "name the items of {}", prefix.join("::"));
                return self.parents.push(prefix.clone());
            }
            UseTree::Name(name) if name.ident == "self" => (None, prefix.last().cloned()),
            UseTree::Name(name) => (Some(&name.ident), Some(name.ident.to_string())),
            UseTree::Rename(rename) => (Some(&rename.ident), Some(rename.rename.to_string())),
        };
        let mut path = prefix.clone();
        path.extend(name.map(ToString::to_string));
        if is_private {
            self.used.insert(path.clone());
        }
        self.named.extend(alias.map(|alias| (alias, path)));
    }

    fn define(&mut self, item: &Item, architecture: &str) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            _ => return,
        };
        if is_left_out(attributes, architecture) {
            return;
        }
        self.defined.extend(name.map(ToString::to_string));
        self.uses(item.to_token_stream());
    }

    /// Collects the paths among `tokens`; also those within macros.
    fn uses(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        let (mut colons, mut is_member) = (0, false);
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.used.insert(std::mem::take(&mut path));
                    }
                    if !is_member {
                        path.push(name.to_string());
                    }
                    (colons, is_member) = (0, false);
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Punct(mark) => {
                    self.used.insert(std::mem::take(&mut path));
                    (colons, is_member) = (0, mark.as_char() == '.');
                }
                TokenTree::Group(group) => {
                    self.used.insert(std::mem::take(&mut path));
                    (colons, is_member) = (0, false);
                    self.uses(group.stream());
                }
                TokenTree::Literal(_) => {}
            }
        }
        self.used.insert(path);
    }
}

/// Tests whether an attribute leaves its item out of a build for `architecture`, as a test's does.
fn is_left_out(attributes: &[Attribute], architecture: &str) -> bool {
    let conditions = attributes.iter().filter(|a| a.path().is_ident("cfg"));
    conditions
        .into_iter()
        .any(|a| !holds(&a.meta, architecture))
}

/// Evaluates a condition of `cfg`. All systems, features and negations count as true.
fn holds(condition: &Meta, architecture: &str) -> bool {
    match condition {
        Meta::Path(name) => !name.is_ident("test") && !name.is_ident("doctest"),
        Meta::NameValue(pair) if pair.path.is_ident("target_arch") => {
            pair.value.to_token_stream().to_string() == format!("{architecture:?}")
        }
        Meta::NameValue(_) => true,
        Meta::List(list) => {
            let parts = Punctuated::<Meta, Token![,]>::parse_terminated;
            let mut parts = list.parse_args_with(parts).unwrap().into_iter();
            list.path.is_ident("not")
                || list.path.is_ident("any") && parts.any(|part| holds(&part, architecture))
                || !list.path.is_ident("any") && parts.all(|part| holds(&part, architecture))
        }
    }
}

/// Returns the file of module `name`, which `file` declares with these attributes.
fn child_file(file: &Path, name: &str, attributes: &[Attribute]) -> PathBuf {
    let folder = file.parent().unwrap();
    if let Some(path) = attributes.iter().find(|a| a.path().is_ident("path")) {
        let path = &path.meta.require_name_value().unwrap().value;
        return folder.join(path.to_token_stream().to_string().trim_matches('"'));
    }
    let folder = match file.file_stem().unwrap().to_str() {
        Some("lib" | "main" | "mod") => folder.to_owned(),
        _ => file.with_extension(""),
    };
    let flat = folder.join(format!("{name}.rs"));
    if flat.exists() {
        flat
    } else {
        folder.join(name).join("mod.rs")
    }
}

/// Returns the circles in the crate whose root is `file`.
fn circles(file: &Path) -> BTreeSet<String> {
    let mut circles = BTreeSet::new();
    for architecture in ARCHITECTURES {
        let modules = BTreeMap::new();
        let mut modules = Modules {
            architecture,
            modules,
        };
        modules.read(&[], file);
        circles.extend(modules.circles());
    }
    circles
}

#[test]
fn no_crate_has_a_circle_of_files() {
    let root = root();
    let folders = crate_folders().into_iter().chain([root.join("kernel")]);
    let roots =
        folders.flat_map(|folder| ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file)));
    let roots: Vec<_> = roots.filter(|file| file.exists()).collect();
    assert!(roots.len() > 10, "{roots:?}");
    let circles = roots.iter().flat_map(|file| circles(file));
    let circles = circles.map(|line| line.replace(&format!("{}/", root.display()), ""));
    let circles: Vec<_> = circles.collect();
    let circles = circles.join("\n");
    assert!(
        circles.is_empty(),
        "each of these files depends on itself:\n{circles}"
    );
}

#[test]
fn a_circle_is_found_through_a_re_export_and_a_file_between() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("lib.rs", "mod a; mod b; mod c; pub use c::Last;");
    write(
        "a.rs",
        "use crate::b; pub struct First; fn f() { b::next() }",
    );
    write("b.rs", "pub fn next() -> Option<crate::Last> { None }");
    write("c.rs", "#[cfg(test)] use crate::a::First; pub struct Last;");
    let root = folder.path().join("lib.rs");
    assert_eq!(circles(&root), BTreeSet::new());
    write("c.rs", "pub struct Last(Vec<crate::a::First>);");
    assert_eq!(circles(&root).len(), 3);
}
