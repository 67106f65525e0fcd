import { forEachChild, parse, type SyntaxNode } from 'unbash'

const opening = /<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n$`\\]+)"|\\([\w.]+))([^\n]*)\n/g

/**
 * Without the bodies of quoted heredocs. Undefined without any, or if the parser then finds others (disguised code).
 */
export function withoutHeredocs(text: string): string | undefined {
  let shorter = ''
  let from = 0
  const delimiters: string[] = []
  opening.lastIndex = 0
  for (let match = opening.exec(text); match !== null; match = opening.exec(text)) {
    const [all, dash, single, double, escaped, rest = ''] = match
    const delimiter = single ?? double ?? escaped ?? ''
    const start = match.index + all.length
    const end = closing(text, start, delimiter, dash === '-')
    if (end === undefined || rest.includes('<<') || delimiters.length > 20) return undefined
    delimiters.push(delimiter)
    shorter += text.slice(from, start)
    from = end
    opening.lastIndex = end
  }
  shorter += text.slice(from)
  return delimiters.length > 0 && sees(shorter, delimiters) ? shorter : undefined
}

function closing(text: string, start: number, delimiter: string, tabs: boolean): number | undefined {
  for (let at = start; at <= text.length;) {
    const newline = text.indexOf('\n', at)
    const end = newline < 0 ? text.length : newline
    const line = text.slice(at, end)
    if ((tabs ? line.replace(/^\t+/, '') : line) === delimiter) return at
    at = end + 1
  }
  return undefined
}

function sees(text: string, delimiters: readonly string[]): boolean {
  if (text.length > 4000) return false
  const found: string[] = []
  let sound = true
  const visit = (node: SyntaxNode): void => {
    if (node.type === 'Script' && node.errors !== undefined && node.errors.length > 0) sound = false
    if (node.type === 'HereDoc' && node.delimiter?.quoted === true && node.body.text === '')
      found.push(node.delimiter.value)
    if (found.length <= delimiters.length) forEachChild(node, visit)
  }
  visit(parse(text))
  return sound && found.length === delimiters.length && found.every((each, at) => each === delimiters[at])
}
