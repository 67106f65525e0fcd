/*
 * Finds the end of a regular expression in a program of sed, awk or ed. Inside brackets, the delimiter is a normal
 * character. Example: the expression in `s/[/]/x/` is `[/]`.
 */

const classes = /\[:[a-z]*:\]|\[([.=])[^\]]{1,20}?\1\]/y

/**
 * Returns the index of the `]` that closes the bracket at `from`. Returns the text's length if there is no such `]`,
 * because sed, awk and ed reject the expression.
 */
function bracketEnd(text: string, from: number, escapes: boolean): number {
  let at = from + 1
  if (text[at] === '^') at += 1
  // A `]` directly after `[` or `[^` is a normal character.
  if (text[at] === ']') at += 1
  for (; at < text.length && text[at] !== ']'; at += 1) {
    classes.lastIndex = at
    if (classes.test(text)) at = classes.lastIndex - 1
    else if (escapes && text[at] === '\\') at += 1
  }
  return at
}

/**
 * Returns the index of the delimiter that ends the expression. The search starts at `from`. Returns the text's length
 * if there is no such delimiter. If `escapes` is true, a backslash also escapes inside brackets, as in awk.
 */
export function expressionEnd(text: string, from: number, delimiter: string, escapes = false): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') at = bracketEnd(text, at, escapes)
  }
  return at
}

/** Like `expressionEnd`, but for a replacement or a quoted text. In such a text, brackets have no meaning. */
export function textEnd(text: string, from: number, delimiter: string): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) if (text[at] === '\\') at += 1
  return at
}
