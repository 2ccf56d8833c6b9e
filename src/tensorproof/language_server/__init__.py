"""The language server: shape defects and shapes while somebody types.

It speaks the Language Server Protocol over standard input and output, with `pygls` (the extra `lsp`). `server` has the
documents and their analyses in time; the other modules turn one finished analysis into what an editor shows.
"""
