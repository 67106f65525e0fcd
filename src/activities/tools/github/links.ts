/*
 * A repository can be named by a link. The policy reads links of github.com alone, so a limit refuses every other link.
 * A call is made with a connection to one host, and only a link of this host means a repository there.
 */

/** The origin of the pages that belong to the API at `base`: `https://github.com`, or that of GitHub Enterprise. */
export function pagesOf(base: string): string {
  const { protocol, host } = new URL(base)
  // Enterprise on ghe.com has its API on a host of its own, as github.com has.
  const isApart = /^api\.(?:github\.com|[a-z\d-]+\.ghe\.com)$/.test(host)
  return `${protocol}//${isApart ? host.slice('api.'.length) : host}`
}

const linkStart = /^(?:(https?:)\/\/)?((?:[a-z\d-]+\.)*[a-z\d-]+(?::\d+)?|\[[\da-f:]+\](?::\d+)?)(?=[/?#]|$)/i

/**
 * The text with a link into `pages` as a link of github.com, which the policy's reader understands. null: the link
 * leads to another host. Other texts stay as they are. The first part of `owner/name` has neither a dot nor a
 * colon.
 */
export function localLink(text: string, pages: string): string | null {
  const { protocol, host } = new URL(pages)
  const [start = '', scheme = protocol, of = ''] = linkStart.exec(text) ?? []
  if (!/[.:]/.test(start)) return text
  const linked = of.toLowerCase()
  if ((host === 'github.com' ? linked.replace(/^www\./, '') : linked) !== host) return null
  return scheme.toLowerCase() === protocol ? `https://github.com${text.slice(start.length)}` : text
}
