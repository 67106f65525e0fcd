import { h, type ComponentChild } from 'preact'

/** Returns the address of a page with these query parameters. Leaves out empty parameters. */
export function addressOf(path: string, query: Readonly<Record<string, string>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== '')
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}

/** Returns the values of these query parameters in the address. Leaves out empty values. */
export function chosenOf(query: URLSearchParams, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = (query.get(name) ?? '').trim()
      return value === '' ? [] : [[name, value]]
    }),
  )
}

/** Shows links to the first page and to the next page of a list. */
export function Pager({
  path,
  chosen,
  cursor,
  next,
  words,
}: {
  readonly path: string
  readonly chosen: Readonly<Record<string, string>>
  /** The query parameter that takes the cursor. */
  readonly cursor: string
  readonly next: string | null
  /** The texts of the links. */
  readonly words: { readonly first: string; readonly next: string }
}): ComponentChild {
  const isFirst = chosen[cursor] === undefined
  if (isFirst && next === null) return null
  return h('nav', { class: 'pager', 'aria-label': `Pages: ${words.next}` }, [
    isFirst
      ? null
      : h('a', { class: 'button', href: addressOf(path, { ...chosen, [cursor]: '' }) }, words.first),
    next === null
      ? null
      : h('a', { class: 'button', href: addressOf(path, { ...chosen, [cursor]: next }) }, words.next),
  ])
}
