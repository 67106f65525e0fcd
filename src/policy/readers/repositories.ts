import { percentDecoded } from './percent.ts'
import { longestText } from './priced.ts'
import { normalized } from './unicode.ts'

/**
 * Maximum number of characters of a search. GitHub refuses longer searches, so they are not read. Up to this length,
 * even a search with many unclosed quotes is read fast.
 */
const longestSearch = 256

/** Invisible characters. Another program may leave them out: `re<zero width space>po:`, `.<zero width space>.`. */
const unseen = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu

const owner = '[a-z\\d](?:[a-z\\d-]{0,38})'
const name = '[\\w.-]{1,100}'
const plain = new RegExp(`^(${owner})/(${name})$`, 'i')
/** A link of github.com, without user info and port. The rest after the repository is plain ASCII. */
const link = new RegExp(`^(?:https://)?(?:www\\.)?github\\.com/(${owner})/(${name})([/?#][!-~]*)?$`, 'i')

/**
 * Returns the repository that a text names, as `owner/name` in lower case. The text is `owner/name`, or a link of
 * github.com into the repository. Returns null for every other text, so that a limit can refuse the call. Example: a
 * link that another program could read differently (`..`, `%2e%2e`, a backslash). The tools accept only a text that
 * this function can read.
 */
export function repositoryOf(text: string): string | null {
  if (text.length > longestText) return null
  const found = plain.exec(text) ?? link.exec(text)
  if (found === null) return null
  const [, ofWhom = '', called = '', rest = ''] = found
  const path = rest.split(/[?#]/, 1)[0] ?? ''
  const bare = called.toLowerCase().replace(/\.git$/, '')
  if (/^\.*$/.test(bare) || path.includes('\\') || climbs(path)) return null
  return `${ofWhom.toLowerCase()}/${bare}`
}

/**
 * Reads a text that has only a part of a repository's name, such as the value of `startswith` in a rule. Returns this
 * part in lower case: `acme/` for `https://github.com/Acme/`.
 */
export function partOfRepository(text: string): string {
  return text.replace(/^(?:https:\/\/)?(?:www\.)?github\.com\/(?=.)/i, '').toLowerCase()
}

/**
 * Converts a link to a repository on any host into a link of github.com. Other texts stay as they are. The host is not
 * checked here, because only the organization's connection knows it (GitHub Enterprise). Without a scheme, the first
 * part of `acme/app/x` may be a host or an owner. It counts as a host only if it has a dot or a colon, because the name
 * of an owner has neither.
 */
export function asGithubLink(text: string): string {
  const [, scheme = '', host = '', rest = ''] = linkOfAnyHost.exec(text) ?? []
  return host !== '' && (scheme !== '' || /[.:]/.test(host)) ? `https://github.com/${rest}` : text
}

const linkOfAnyHost = /^(https?:\/\/)?([^/?#\\]+)\/([^/?#\\]+\/.*)$/is

/**
 * The issue, pull request, file and branch that a link names inside a repository. `path` or `ref` is null if this part
 * of the link has a `%` that encodes nothing.
 */
export interface LinkedInside {
  readonly number?: number
  readonly path?: string | null
  readonly ref?: string | null
}

/**
 * Returns the issue, pull request or file that a link names. Returns an empty object if the link names none of these.
 * The link must have the form that `asGithubLink` returns.
 */
export function linkedInside(link: string): LinkedInside {
  if (link.length > longestText || !link.startsWith('https://github.com/')) return {}
  const path = link.slice('https://github.com/'.length).split(/[?#]/, 1)[0] ?? ''
  const [kind = '', first = '', ...rest] = path.split('/').slice(2)
  if (kind === 'issues' || kind === 'pull')
    return /^[1-9]\d{0,9}$/.test(first) ? { number: Number(first) } : {}
  if ((kind !== 'blob' && kind !== 'raw') || rest.length === 0) return {}
  return { path: percentDecoded(rest.join('/')), ref: percentDecoded(first) }
}

/**
 * Reads a repository in a tool policy: `owner/name`, or `owner/*` for all repositories of the owner. Returns the text
 * in lower case. Returns null for every other text.
 */
export function ruleRepository(text: string): string | null {
  const all = /^([^/]+)\/\*$/.exec(text)
  if (all !== null) return new RegExp(`^${owner}$`, 'i').test(all[1] ?? '') ? text.toLowerCase() : null
  return plain.test(text) ? repositoryOf(text) : null
}

/**
 * Returns whether some program could read a path as leaving its folder, because one part is `..`. The part may be
 * percent-encoded once or more, stand between backslashes, or have compatibility characters (`．．`). Also returns true
 * for links, and for paths that have control characters, are too long, or are encoded too often.
 */
export function climbs(path: string): boolean {
  if (path.length > longestText) return true
  let text = path
  for (let round = 0; ; round++) {
    text = normalized(text, 'NFKC')
    if (/\p{Cc}|:\/\//u.test(text)) return true
    if (text.split(/[/\\]/).some(isParent)) return true
    const decoded = text.replace(/%([\da-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
    if (decoded === text) return false
    if (round === 4) return true
    text = decoded
  }
}

/**
 * Returns whether some program could read the part as `..`. Some programs cut a part of a path at `;`, and leave out
 * invisible characters.
 */
const isParent = (part: string): boolean => (part.split(';', 1)[0] ?? '').replace(unseen, '').trim() === '..'

/** The repositories that a code search covers. */
export interface SearchScope {
  /** Repositories (`owner/name`) and owners (`owner/*`) that the search names. */
  readonly names: readonly string[]
  /** Whether the search covers only the repositories in `names`. */
  readonly isBounded: boolean
}

const phrase = /((?:^| )(?:repo|org|user|owner):)?"(?:[^"\\]|\\.)*"/gi
const scopeWord = /(repo|org|user|owner|enterprise|saved)\s*:\s*"?([^\s"()]*)/gi
const boundary = /^(?:repo|org|user|owner):[^"()]+$/i

/**
 * Returns the repositories that a query covers in GitHub's code search. Returns null if they are uncertain. This is the
 * case if the query is too long, or has alternatives (`OR`), negation, parentheses, regular expressions, an unclosed
 * quote, a qualifier such as `saved:`, or characters that another program could read as other characters. Every
 * repository that the query names counts, even if GitHub would only search for this text (`"see repo:acme/app"`).
 */
export function searchScope(query: string): SearchScope | null {
  if (query.length > longestSearch || normalized(query, 'NFKC') !== query) return null
  if (/[^\S ]/.test(query) || query.search(unseen) >= 0) return null
  // Removes phrases, which are only text to look for. Words stay. Qualifiers stay too, without the quotes of their
  // values.
  const bare = query.replace(phrase, (quoted, qualifier: string | undefined) =>
    qualifier === undefined ? ' ' : quoted.replaceAll('"', ''),
  )
  // Inside a regular expression (`path:/[ repo:acme/app ]/`), a qualifier may be only text that does not limit the
  // search. So the repositories of such a query are uncertain.
  if (/["()|]|(?:^| )(?:or|not)(?= |$)|(?:^|[ :])-?\//i.test(bare)) return null
  const names: string[] = []
  for (const [, word = '', value = ''] of query.matchAll(scopeWord)) {
    const named = word.toLowerCase() === 'repo' ? repositoryOf(value) : ruleRepository(`${value}/*`)
    if (named === null || /^(?:enterprise|saved)$/i.test(word)) return null
    names.push(named)
  }
  return { names, isBounded: bare.split(' ').some((word) => boundary.test(word)) }
}
