import { normalized, percentDecoded } from './text-variants.ts'
import { longestText } from '../budget.ts'

/** GitHub refuses longer searches. Up to this length, even many unclosed quotes are read fast. */
const longestSearch = 256

/** Another program may leave them out: `re<zero width space>po:`, `.<zero width space>.`. */
const unseen = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu

const owner = '[a-z\\d](?:[a-z\\d-]{0,38})'
const name = '[\\w.-]{1,100}'
const plain = new RegExp(`^(${owner})/(${name})$`, 'i')
/** Without user info and port. The rest after the repository is plain ASCII. */
const link = new RegExp(`^(?:https://)?(?:www\\.)?github\\.com/(${owner})/(${name})([/?#][!-~]*)?$`, 'i')

/**
 * `owner/name` in lower case, also from a link of github.com into the repository. Null for every other text, such as a
 * link that another program could read differently (`..`, `%2e%2e`, a backslash), so that a limit can refuse the call.
 * The tools accept only what this function can read.
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

/** A part of a name, as in `startswith`, in lower case: `acme/` for `https://github.com/Acme/`. */
export function partOfRepository(text: string): string {
  return text.replace(/^(?:https:\/\/)?(?:www\.)?github\.com\/(?=.)/i, '').toLowerCase()
}

/**
 * A link to a repository on any host as a link of github.com; other texts stay. Only the connection knows the host
 * (GitHub Enterprise). Without a scheme, the first part of `acme/app/x` is a host only with a dot or a colon, which no
 * owner has.
 */
export function asGithubLink(text: string): string {
  const [, scheme = '', host = '', rest = ''] = linkOfAnyHost.exec(text) ?? []
  return host !== '' && (scheme !== '' || /[.:]/.test(host)) ? `https://github.com/${rest}` : text
}

const linkOfAnyHost = /^(https?:\/\/)?([^/?#\\]+)\/([^/?#\\]+\/.*)$/is

/** `path` or `ref` is null if it has a `%` that encodes nothing. */
export interface LinkedInside {
  readonly number?: number
  readonly path?: string | null
  readonly ref?: string | null
}

/** The issue, pull request or file that a link names, in the form of `asGithubLink`. */
export function linkedInside(link: string): LinkedInside {
  if (link.length > longestText || !link.startsWith('https://github.com/')) return {}
  const path = link.slice('https://github.com/'.length).split(/[?#]/, 1)[0] ?? ''
  const [kind = '', first = '', ...rest] = path.split('/').slice(2)
  if (kind === 'issues' || kind === 'pull')
    return /^[1-9]\d{0,9}$/.test(first) ? { number: Number(first) } : {}
  if ((kind !== 'blob' && kind !== 'raw') || rest.length === 0) return {}
  return { path: percentDecoded(rest.join('/')), ref: percentDecoded(first) }
}

/** `owner/name`, or `owner/*` for all repositories of the owner, in lower case. */
export function ruleRepository(text: string): string | null {
  const all = /^([^/]+)\/\*$/.exec(text)
  if (all !== null) return new RegExp(`^${owner}$`, 'i').test(all[1] ?? '') ? text.toLowerCase() : null
  return plain.test(text) ? repositoryOf(text) : null
}

/**
 * Whether some program could read a path as leaving its folder by a part `..`: percent-encoded once or more, between
 * backslashes, or with compatibility characters (`．．`). Also true for links, and for paths that have control
 * characters, are too long, or are encoded too often.
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

/** Some programs cut a part at `;`, and leave out invisible characters. */
const isParent = (part: string): boolean => (part.split(';', 1)[0] ?? '').replace(unseen, '').trim() === '..'

export interface SearchScope {
  /** Repositories (`owner/name`) and owners (`owner/*`). */
  readonly names: readonly string[]
  /** Whether the search covers only `names`. */
  readonly isBounded: boolean
}

const phrase = /((?:^| )(?:repo|org|user|owner):)?"(?:[^"\\]|\\.)*"/gi
const scopeWord = /(repo|org|user|owner|enterprise|saved)\s*:\s*"?([^\s"()]*)/gi
const boundary = /^(?:repo|org|user|owner):[^"()]+$/i

/**
 * What a query covers in GitHub's code search; null if uncertain: too long, or with alternatives (`OR`), negation,
 * parentheses, regular expressions, an unclosed quote, a qualifier such as `saved:`, or characters that another program
 * could read as others. Every named repository counts, even where GitHub would only search for the text (`"see
 * repo:acme/app"`).
 */
export function searchScope(query: string): SearchScope | null {
  if (query.length > longestSearch || normalized(query, 'NFKC') !== query) return null
  if (/[^\S ]/.test(query) || query.search(unseen) >= 0) return null
  // Phrases are only text to look for. Qualifiers stay, without the quotes of their values.
  const bare = query.replace(phrase, (quoted, qualifier: string | undefined) =>
    qualifier === undefined ? ' ' : quoted.replaceAll('"', ''),
  )
  // Inside a regular expression (`path:/[ repo:acme/app ]/`), a qualifier may be text that limits nothing.
  if (/["()|]|(?:^| )(?:or|not)(?= |$)|(?:^|[ :])-?\//i.test(bare)) return null
  const names: string[] = []
  for (const [, word = '', value = ''] of query.matchAll(scopeWord)) {
    const named = word.toLowerCase() === 'repo' ? repositoryOf(value) : ruleRepository(`${value}/*`)
    if (named === null || /^(?:enterprise|saved)$/i.test(word)) return null
    names.push(named)
  }
  return { names, isBounded: bare.split(' ').some((word) => boundary.test(word)) }
}
