import type { ComponentChild, ComponentChildren } from 'preact'
import { Icon } from './state.tsx'
import { visible } from '../../policy/readers/look-alikes.ts'

export function addressOf(path: string, query: Chosen): string {
  const given = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []))
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}

export function chosenOf<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
): { readonly [N in Name]?: string } {
  return Object.fromEntries<string>(
    names.flatMap((name) => {
      const value = (query.get(name) ?? '').trim()
      return value === '' ? [] : [[name, value]]
    }),
  ) as { [N in Name]?: string }
}

export function Pager(props: {
  readonly path: string
  readonly chosen: Chosen
  readonly cursor: string
  readonly next: string | null
  readonly words: { readonly first: string; readonly next: string }
}) {
  const { path, chosen, cursor, next, words } = props
  const isFirst = chosen[cursor] === undefined
  if (isFirst && next === null) return null
  return (
    <nav class="pager" aria-label={`Pages: ${words.next}`}>
      {isFirst ? null : (
        <a class="button" href={addressOf(path, { ...chosen, [cursor]: '' })}>
          {words.first}
        </a>
      )}
      {next === null ? null : (
        <a class="button" href={addressOf(path, { ...chosen, [cursor]: next })}>
          {words.next}
        </a>
      )}
    </nav>
  )
}

/** A filter's value by its name. */
export type Chosen = Readonly<Record<string, string | undefined>>

/** A form that filters a list. It is unfolded if a filter is in use. */
export function Filters(props: {
  path: string
  chosen: Chosen
  names: readonly string[]
  title: string
  /** What stays chosen besides. */
  kept?: readonly string[]
  children?: ComponentChildren
}) {
  const { path, chosen, names, title, kept = [], children } = props
  const count = names.filter((name) => chosen[name] !== undefined).length
  return (
    <details class="filters" open={count > 0}>
      <summary class="button">
        <Icon name="filter" />
        {count === 0 ? title : `${title} (${count})`}
      </summary>
      <form method="get" action={path} role="search" aria-label={title}>
        <Kept chosen={chosen} names={kept} />
        {children}
        <div class="buttons">
          <button>Show</button>
          <a class="button" href={path}>
            Clear
          </a>
        </div>
      </form>
    </details>
  )
}

/** One field that is always there. */
export function Search(props: {
  readonly path: string
  readonly label: string
  readonly chosen: Chosen
  /** Default: `search`. */
  readonly name?: string
  /** What stays chosen. */
  readonly kept?: readonly string[]
}) {
  const { path, label, chosen, name = 'search', kept = [] } = props
  return (
    <form method="get" action={path} role="search" aria-label={label} class="search">
      <Kept chosen={chosen} names={kept} />
      <Field name={name} label={label} chosen={chosen} />
      <button>Search</button>
      {chosen[name] === undefined ? null : (
        <a class="button" href={addressOf(path, { ...chosen, [name]: '', cursor: '' })}>
          Clear
        </a>
      )}
    </form>
  )
}

const Kept = ({ chosen, names }: { chosen: Chosen; names: readonly string[] }) =>
  names.map((name) =>
    chosen[name] === undefined ? null : <input type="hidden" name={name} value={chosen[name]} />,
  )

export function Field(props: { name: string; label: string; chosen: Chosen; type?: 'text' | 'date' }) {
  const { name, label, chosen, type = 'text' } = props
  const typed = { type } as { readonly type: 'text' }
  return (
    <div>
      <label for={name}>{label}</label>
      <input
        id={name}
        name={name}
        {...typed}
        value={chosen[name] ?? ''}
        {...(type === 'text' ? { maxlength: 200, autocomplete: 'off', spellcheck: false } : {})}
      />
    </div>
  )
}

/** A value of the address that is no option is added, and stays selected. */
export function Choice(props: {
  readonly name: string
  readonly label: string
  readonly chosen: Chosen
  /** Value, text (cut if it is long), and a second text that is never cut. */
  readonly options: readonly (readonly [string, string, string?])[]
  /** The words of no choice; null if one must be chosen. */
  readonly any?: string | null
}) {
  const { name, label, chosen, options, any = 'any' } = props
  const value = chosen[name] ?? ''
  const isListed = value === '' || options.some(([id]) => id === value)
  return (
    <div>
      <label for={name}>{label}</label>
      <select id={name} name={name}>
        {any === null ? null : <option value="">{any}</option>}
        {isListed ? null : (
          <option value={value} selected>
            {beginning(value, 60)}
          </option>
        )}
        {options.map(([id, words, end = '']) => (
          <option value={id} selected={id === value}>
            {beginning(words, 80) + end}
          </option>
        ))}
      </select>
    </div>
  )
}

/** Invisible characters, and marks that change the writing direction, are shown as numbers such as `U+202E`. */
const beginning = (text: string, characters: number): string =>
  visible(text.slice(0, characters).toWellFormed())

/** The title of a column of buttons, which need none on a phone. */
export const actions = 'Change'

/** On a phone each row is a block, and each cell has the title of its column before it. The first cell names the row. */
export function Table(props: {
  readonly label: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly ComponentChild[])[]
}) {
  const { label, head, rows } = props
  return (
    <table class="table" aria-label={label}>
      <thead>
        <tr>
          {head.map((title) => (
            <th scope="col">{title}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(([name, ...cells]) => (
          <tr>
            <th scope="row">{name}</th>
            {cells.map((cell, index) => (
              <td data-title={head[index + 1] === actions ? undefined : head[index + 1]}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** In place of a list without rows: why there is none, and what to do first. */
export const Empty = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div class="card stack">
    <p>
      <strong>{title}</strong>
    </p>
    <p>{children}</p>
  </div>
)
