/** The effect of a tool of an MCP server, by its name alone. `web`: it reads the web, so its output is `untrusted`. */
export type ProtocolToolKind = 'egress' | 'write' | 'web' | 'read'

/** The first matching row decides. */
const words: readonly (readonly [ProtocolToolKind, ReadonlySet<string>])[] = [
  ['egress', new Set(['send', 'post', 'create', 'comment', 'share', 'upload'])],
  ['web', new Set(['web', 'browse', 'scrape', 'crawl'])],
  ['read', new Set(['get', 'list', 'read', 'search'])],
]
/** Ways to split `mcp__a__b__c` that are judged: the server is `a` or `a__b`. With more, it may be a write. */
const mostParts = 20
const strictest: readonly ProtocolToolKind[] = ['egress', 'write', 'web', 'read']

/**
 * The effect of `mcp__<server>__<tool>`, by the words in the tool's own name (separated by `_`, `-` and camelCase), not
 * the server's. Of several places where this name may begin, the strictest effect counts. Without a known word it is a
 * write. Callers convert other forms, such as `MCP:<tool>`, first.
 */
export function protocolToolKind(name: string): ProtocolToolKind {
  const tools = toolParts(name)
  const kinds = new Set(tools.slice(0, mostParts).map(kindOf))
  if (tools.length > mostParts) kinds.add('write')
  return strictest.find((kind) => kinds.has(kind)) ?? 'write'
}

export function protocolToolSideEffect(name: string): {
  readonly sideEffect: 'egress' | 'write' | 'read'
  readonly label: 'internal' | 'untrusted' | null
} {
  const kind = protocolToolKind(name)
  if (kind === 'web') return { sideEffect: 'read', label: 'untrusted' }
  return { sideEffect: kind, label: kind === 'read' ? 'internal' : null }
}

/** Every ending that may be the tool's own name: a server's name may contain `__` too. */
function toolParts(name: string): string[] {
  const [, rest] = /^mcp__(.*)$/s.exec(name) ?? []
  const parts: string[] = []
  // A server's name has at least one character.
  for (let at = rest?.indexOf('__', 1) ?? -1; rest !== undefined && at > 0; at = rest.indexOf('__', at + 1))
    parts.push(rest.slice(at + 2))
  return parts.filter((part) => part !== '')
}

function kindOf(tool: string): ProtocolToolKind {
  if (tool === 'fetch') return 'web'
  const found = words.find(([kind, set]) => {
    // For egress, every other character separates words too. This finds more words, which is stricter.
    const tokens = kind === 'egress' ? toolTokens(tool.replaceAll(/[^A-Za-z0-9]+/g, '_')) : toolTokens(tool)
    return tokens.some((token) => set.has(token))
  })
  return found?.[0] ?? 'write'
}

/** In lower case: `HTTPPost_file-list` has `http`, `post`, `file` and `list`. */
export function toolTokens(tool: string): string[] {
  return tool
    .replaceAll(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, '_')
    .toLowerCase()
    .split(/[_-]+/)
    .filter((token) => token !== '')
}
