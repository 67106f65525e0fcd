/**
 * Returns the choices of `{a,b}` as raw text with quotes. Returns undefined for a sequence (`{1..9}`), and for more
 * than 40 choices.
 */
export function splitBraces(text: string): string[] | undefined {
  if (!text.startsWith('{') || !text.endsWith('}')) return undefined
  const choices: string[] = []
  let depth = 0
  let start = 1
  for (let at = 1; at < text.length - 1; at += 1) {
    const char = text[at]
    if (char === '\\') at += 1
    else if (char === "'" || char === '"') at = closing(text, at, char)
    else if (char === '{' || char === '(') depth += 1
    else if (char === '}' || char === ')') depth -= 1
    else if (char === ',' && depth === 0) {
      choices.push(text.slice(start, at))
      start = at + 1
    }
  }
  choices.push(text.slice(start, -1))
  return choices.length < 2 || choices.length > 40 ? undefined : choices
}

function closing(text: string, from: number, quote: string): number {
  let at = from + 1
  while (at < text.length && text[at] !== quote) at += quote === '"' && text[at] === '\\' ? 2 : 1
  return at
}
