/*
 * Finds the end of a regular expression in a program of sed, awk or ed. Inside brackets, the delimiter is a normal
 * character.
 */

const classes = /\[:[a-z]*:\]|\[([.=])[^\]]{1,20}?\1\]/y

/**
 * The index of the `]` that closes the bracket at `from`. If there is none, returns the text's length; sed, awk and ed
 * reject such an expression.
 */
function bracketEnd(text: string, from: number, escapes: boolean): number {
  let at = from + 1
  if (text[at] === '^') at += 1
  // A `]` at the first place is a normal character.
  if (text[at] === ']') at += 1
  for (; at < text.length && text[at] !== ']'; at += 1) {
    classes.lastIndex = at
    if (classes.test(text)) at = classes.lastIndex - 1
    else if (escapes && text[at] === '\\') at += 1
  }
  return at
}

/**
 * The index of the delimiter that ends the expression, searched from `from` on. If there is none, returns the text's
 * length. If `escapes` is true, a backslash also escapes inside brackets, as in awk.
 */
export function expressionEnd(text: string, from: number, delimiter: string, escapes = false): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') at = bracketEnd(text, at, escapes)
  }
  return at
}

/** Like `expressionEnd`, but for a text in which brackets have no meaning, such as a replacement or a quoted text. */
export function textEnd(text: string, from: number, delimiter: string): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) if (text[at] === '\\') at += 1
  return at
}
