/**
 * The effect of a protocol tool (a tool of an MCP server). Only the tool's name decides. `web` means that the tool
 * reads the web, so its output is `untrusted`.
 */
export type ProtocolToolKind = 'egress' | 'write' | 'web' | 'read'

/** Words in a tool's name. The first matching row decides. */
const words: readonly (readonly [ProtocolToolKind, ReadonlySet<string>])[] = [
  ['egress', new Set(['send', 'post', 'create', 'comment', 'share', 'upload'])],
  ['web', new Set(['web', 'browse', 'scrape', 'crawl'])],
  ['read', new Set(['get', 'list', 'read', 'search'])],
]
/**
 * A name with several `__` can be split in several ways: `mcp__a__b__c` is the tool `b__c` of the server `a`, or the
 * tool `c` of the server `a__b`. At most this many ways are judged. If a name has more ways, `write` counts as one of
 * its possible effects.
 */
const mostParts = 20
const strictest: readonly ProtocolToolKind[] = ['egress', 'write', 'web', 'read']

/**
 * Returns the effect of a protocol tool `mcp__<server>__<tool>`. The words in the tool's own name decide. These words
 * are separated by `_`, `-` and camelCase. The server's name does not count. If it is unclear where the tool's own name
 * begins, the strictest effect counts. A name without a known word is a write. Some clients write a name in another
 * form, e.g. `MCP:<tool>`. The caller must convert such a name first.
 */
export function protocolToolKind(name: string): ProtocolToolKind {
  const tools = toolParts(name)
  const kinds = new Set(tools.slice(0, mostParts).map(kindOf))
  if (tools.length > mostParts) kinds.add('write')
  return strictest.find((kind) => kinds.has(kind)) ?? 'write'
}

/** Returns the tool's side effect and the label of its output. The label is null if the output gets no label. */
export function protocolToolSideEffect(name: string): {
  readonly sideEffect: 'egress' | 'write' | 'read'
  readonly label: 'internal' | 'untrusted' | null
} {
  const kind = protocolToolKind(name)
  if (kind === 'web') return { sideEffect: 'read', label: 'untrusted' }
  return { sideEffect: kind, label: kind === 'read' ? 'internal' : null }
}

/**
 * Returns every ending of the name that could be the tool's own name. There can be several, because a server's name may
 * contain `__` too.
 */
function toolParts(name: string): string[] {
  const [, rest] = /^mcp__(.*)$/s.exec(name) ?? []
  const parts: string[] = []
  // The search begins at 1, because a server's name has at least one character.
  for (let at = rest?.indexOf('__', 1) ?? -1; rest !== undefined && at > 0; at = rest.indexOf('__', at + 1))
    parts.push(rest.slice(at + 2))
  return parts.filter((part) => part !== '')
}

function kindOf(tool: string): ProtocolToolKind {
  if (tool === 'fetch') return 'web'
  const found = words.find(([kind, set]) => {
    // For egress, every character that is no letter or digit also separates words. This finds more words, which is
    // stricter.
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
