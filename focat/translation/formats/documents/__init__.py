"""Documents of office programs, and books: ZIP archives of XML files, whose paragraphs are translated."""
