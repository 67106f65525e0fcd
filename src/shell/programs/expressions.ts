/*
 * Finds the end of regular expressions inside programs of sed, awk and ed. In brackets a delimiter is a normal
 * character.
 */

const classes = /\[:[a-z]*:\]|\[([.=])[^\]]{1,20}?\1\]/y

/** The index of the bracket that closes the one at `from`. If there is none, the programs reject the expression. */
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
 * The index of the expression's delimiter from `from` on, or the end of the text. `escapes`: a backslash also escapes
 * in brackets, as in awk.
 */
export function expressionEnd(text: string, from: number, delimiter: string, escapes = false): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') at = bracketEnd(text, at, escapes)
  }
  return at
}

/** The same for text without brackets, such as a replacement or a quoted text. */
export function textEnd(text: string, from: number, delimiter: string): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) if (text[at] === '\\') at += 1
  return at
}
