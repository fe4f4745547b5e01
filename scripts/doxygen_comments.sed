# Plain C++ comments as doxygen's, for the reference only: see Doxyfile.

# Three or more spaces set off an example or a list of cases. Markdown wants more of them, and an empty
# line before the first; the hold space knows whether the line before was such a one.
/^ *\/\/   /!{
  x
  s/.*//
  x
}
/^ *\/\/   /{
  x
  /^$/{
    s/^/set off/
    x
    s|^( *)//   +|\1///\n\1///      |
    b
  }
  x
  s|^( *)//   +|\1///      |
  b
}

# A comment behind a declaration is about that declaration.
s|^( *[^ /].*[;,)}] +)// |\1///< |
s|^( *)//( *$)|\1///\2|
s|^( *)// |\1/// |
