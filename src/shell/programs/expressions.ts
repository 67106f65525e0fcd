/*
 * Finds the end of regular expressions inside programs of sed, awk and ed. In brackets a delimiter is a normal
 * character.
 */

const classes = /\[:[a-z]*:\]|\[([.=])[^\]]{1,20}?\1\]/y

/**
 * The index of the bracket that closes the bracket at `from`. Without a closing bracket, programs reject the
 * expression.
 */
function bracketEnd(text: string, from: number, escapes: boolean): number {
  let at = from + 1
  if (text[at] === '^') at += 1
  // A first `]` stands for itself.
  if (text[at] === ']') at += 1
  for (; at < text.length && text[at] !== ']'; at += 1) {
    classes.lastIndex = at
    if (classes.test(text)) at = classes.lastIndex - 1
    else if (escapes && text[at] === '\\') at += 1
  }
  return at
}

/**
 * The index of the delimiter that ends the expression, searched from `from` on; the text's length if there is none.
 * `escapes`: a backslash also escapes in brackets, as in awk.
 */
export function expressionEnd(text: string, from: number, delimiter: string, escapes = false): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') at = bracketEnd(text, at, escapes)
  }
  return at
}

/** Like `expressionEnd`, for text in which brackets mean nothing, such as a replacement or a quoted text. */
export function textEnd(text: string, from: number, delimiter: string): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) if (text[at] === '\\') at += 1
  return at
}
