/* In brackets, sed, awk and ed read the delimiter as a normal character: `[/]` in `s/[/]/x/`. */

const classes = /\[:[a-z]*:\]|\[([.=])[^\]]{1,20}?\1\]/y

/** The index of the `]` that closes the bracket at `from`, or the text's length: sed, awk and ed then reject it. */
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

/** The index of the delimiter, or the text's length. With `escapes`, a backslash counts in brackets too (awk). */
export function expressionEnd(text: string, from: number, delimiter: string, escapes = false): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') at = bracketEnd(text, at, escapes)
  }
  return at
}

/** Like `expressionEnd`, for a replacement or a quoted text, where brackets have no meaning. */
export function textEnd(text: string, from: number, delimiter: string): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) if (text[at] === '\\') at += 1
  return at
}
