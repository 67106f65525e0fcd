/** What a protocol tool does, by its name alone. `web`: a read of the web, so its answer is `untrusted`. */
export type ProtocolToolKind = 'egress' | 'write' | 'web' | 'read'

/** Words by which a name is judged (specification, "Classification of agent tool calls"), the first row that matches. */
const words: readonly (readonly [ProtocolToolKind, ReadonlySet<string>])[] = [
  ['egress', new Set(['send', 'post', 'create', 'comment', 'share', 'upload'])],
  ['web', new Set(['web', 'browse', 'scrape', 'crawl'])],
  ['read', new Set(['get', 'list', 'read', 'search'])],
]
/** Where several readings are possible, the strictest: a write is never taken for a read. */
const mostParts = 20
const strictest: readonly ProtocolToolKind[] = ['egress', 'write', 'web', 'read']

/**
 * What a protocol tool does: the tokens of the tool's own name, split at `_`, `-` and camelCase (contract section 7);
 * the server's name says nothing. Names are `mcp__<server>__<tool>`; clients' other forms are turned into it before. Where
 * more than one part of the name could be the tool's, the strictest reading holds. Anything else is a write.
 */
export function protocolToolKind(name: string): ProtocolToolKind {
  const tools = toolParts(name)
  const kinds = new Set(tools.slice(0, mostParts).map(kindOf))
  if (tools.length > mostParts) kinds.add('write')
  return strictest.find((kind) => kinds.has(kind)) ?? 'write'
}

/** The side effect of that tool, and the label its answer carries. */
export function protocolToolSideEffect(name: string): {
  readonly sideEffect: 'egress' | 'write' | 'read'
  readonly label: 'internal' | 'untrusted' | null
} {
  const kind = protocolToolKind(name)
  if (kind === 'web') return { sideEffect: 'read', label: 'untrusted' }
  return { sideEffect: kind, label: kind === 'read' ? 'internal' : null }
}

/** Every part of the name that could be the tool's: behind the server's name, which may hold `__` itself. */
function toolParts(name: string): string[] {
  const [, rest] = /^mcp__(.*)$/s.exec(name) ?? []
  const parts: string[] = []
  // A server's name has a letter at least.
  for (let at = rest?.indexOf('__', 1) ?? -1; rest !== undefined && at > 0; at = rest.indexOf('__', at + 1))
    parts.push(rest.slice(at + 2))
  return parts.filter((part) => part !== '')
}

function kindOf(tool: string): ProtocolToolKind {
  if (tool === 'fetch') return 'web'
  const found = words.find(([kind, set]) => {
    // Other signs divide a name too, where that is stricter.
    const tokens = kind === 'egress' ? toolTokens(tool.replaceAll(/[^A-Za-z0-9]+/g, '_')) : toolTokens(tool)
    return tokens.some((token) => set.has(token))
  })
  return found?.[0] ?? 'write'
}

/** The words of a tool's name in lower case: `HTTPPost_file-list` has `http`, `post`, `file` and `list`. */
export function toolTokens(tool: string): string[] {
  return tool
    .replaceAll(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, '_')
    .toLowerCase()
    .split(/[_-]+/)
    .filter((token) => token !== '')
}
