/*
 * Regular expressions inside the programs of sed, awk and ed: not what they match, only where they end. In brackets a
 * delimiter is a character like any other.
 */

const classes = /\[:[a-z]*:\]|\[([.=])[^\]]{1,20}?\1\]/y

/** Where the bracket that opens there closes. Without an end the expression is none, and whoever reads it stops there. */
function bracketEnd(text: string, from: number, escapes: boolean): number {
  let at = from + 1
  if (text[at] === '^') at += 1
  // The first one stands for itself.
  if (text[at] === ']') at += 1
  for (; at < text.length && text[at] !== ']'; at += 1) {
    classes.lastIndex = at
    if (classes.test(text)) at = classes.lastIndex - 1
    else if (escapes && text[at] === '\\') at += 1
  }
  return at
}

/**
 * Where the expression from there on has its delimiter, or the text its end. `escapes`: a backslash counts in brackets too,
 * as it does to awk.
 */
export function expressionEnd(text: string, from: number, delimiter: string, escapes = false): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') at = bracketEnd(text, at, escapes)
  }
  return at
}

/** The same of a text in which brackets mean nothing: what is put in a match's place, a text in quotes. */
export function textEnd(text: string, from: number, delimiter: string): number {
  let at = from
  for (; at < text.length && text[at] !== delimiter; at += 1) if (text[at] === '\\') at += 1
  return at
}
