import { normalized } from './unicode.ts'

/** Longer texts are not read. */
export const longestText = 4096
/** Longer searches are not read: GitHub takes none. Below it, a search of unclosed quotes costs little. */
const longestSearch = 256

/** Characters that are not seen. Another program may leave them out: `re<zero width space>po:`, `.<same>.`. */
const unseen = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu

const owner = '[a-z\\d](?:[a-z\\d-]{0,38})'
const name = '[\\w.-]{1,100}'
const plain = new RegExp(`^(${owner})/(${name})$`, 'i')
/** A link of github.com without user info, port or odd slashes; the rest after the repository is plain ASCII. */
const link = new RegExp(`^(?:https://)?(?:www\\.)?github\\.com/(${owner})/(${name})([/?#][!-~]*)?$`, 'i')

/**
 * The repository that a text names, in lower case: `owner/name`, or a link of github.com into the repository. null for
 * everything else, such as a link that another reader could read otherwise (`..`, `%2e`, a backslash), so that a limit
 * can refuse it. The tools take only what this function reads.
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

/** A repository of a policy: `owner/name`, or `owner/*` for all repositories of the owner. In lower case. */
export function ruleRepository(text: string): string | null {
  const all = /^([^/]+)\/\*$/.exec(text)
  if (all !== null) return new RegExp(`^${owner}$`, 'i').test(all[1] ?? '') ? text.toLowerCase() : null
  return plain.test(text) ? repositoryOf(text) : null
}

/**
 * Whether a path may leave its folder in some program: a part `..`, also percent-encoded once or more, with backslashes,
 * or in compatibility characters (`．．`). Also true for control characters and for links.
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

/** Some programs cut a part of a path at `;`, and leave out characters that are not seen. */
const isParent = (part: string): boolean => (part.split(';', 1)[0] ?? '').replace(unseen, '').trim() === '..'

/** What a search of code covers. */
export interface SearchScope {
  /** Repositories (`owner/name`) and owners (`owner/*`) that the search names. */
  readonly names: readonly string[]
  /** Whether it covers only these. */
  readonly isBounded: boolean
}

const phrase = /((?:^| )(?:repo|org|user|owner):)?"(?:[^"\\]|\\.)*"/gi
const scopeWord = /(repo|org|user|owner|enterprise|saved)\s*:\s*"?([^\s"()]*)/gi
const boundary = /^(?:repo|org|user|owner):[^"()]+$/i

/**
 * What a search in GitHub's code search covers. null if it cannot be said: alternatives (`OR`), negation, parentheses,
 * regular expressions, an unclosed quote, or characters that another program could read as others. A repository that is
 * named anywhere counts, even where the search would only look for this text.
 */
export function searchScope(query: string): SearchScope | null {
  if (query.length > longestSearch || normalized(query, 'NFKC') !== query) return null
  if (/[^\S ]/.test(query) || query.search(unseen) >= 0) return null
  // What is left are words, and qualifiers whose value was in quotes. A phrase is text to look for.
  const bare = query.replace(phrase, (quoted, qualifier: string | undefined) =>
    qualifier === undefined ? ' ' : quoted.replaceAll('"', ''),
  )
  // A regular expression (`path:/[ repo:acme/app ]/`) may hide a qualifier, which then bounds nothing.
  if (/["()|]|(?:^| )(?:or|not)(?= |$)|(?:^|[ :])-?\//i.test(bare)) return null
  const names: string[] = []
  for (const [, word = '', value = ''] of query.matchAll(scopeWord)) {
    const named = word.toLowerCase() === 'repo' ? repositoryOf(value) : ruleRepository(`${value}/*`)
    if (named === null || /^(?:enterprise|saved)$/i.test(word)) return null
    names.push(named)
  }
  return { names, isBounded: bare.split(' ').some((word) => boundary.test(word)) }
}
