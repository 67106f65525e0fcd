import { h, type ComponentChild, type ComponentChildren } from 'preact'
import { Icon } from './state.ts'
import { visible } from '../../policy/readers/look-alikes.ts'

type Chosen = Readonly<Record<string, string>>

/**
 * Shows a form that filters a list. The browser sends the form by GET. The form is unfolded if at least one filter is
 * in use.
 */
export function Filters({
  path,
  chosen,
  names,
  title,
  children,
}: {
  readonly path: string
  readonly chosen: Chosen
  readonly names: readonly string[]
  readonly title: string
  readonly children?: ComponentChildren
}): ComponentChild {
  const count = names.filter((name) => chosen[name] !== undefined).length
  return h('details', { class: 'filters', open: count > 0 }, [
    h('summary', { class: 'button' }, [
      h(Icon, { name: 'filter' }),
      count === 0 ? title : `${title} (${count})`,
    ]),
    h('form', { method: 'get', action: path, role: 'search' }, [
      children,
      h('div', { class: 'buttons' }, [
        h('button', null, 'Show'),
        h('a', { class: 'button', href: path }, 'Clear'),
      ]),
    ]),
  ])
}

export function Field({
  name,
  label,
  chosen,
  type = 'text',
}: {
  readonly name: string
  readonly label: string
  readonly chosen: Chosen
  readonly type?: 'text' | 'date'
}): ComponentChild {
  return h('div', null, [
    h('label', { for: name }, label),
    h('input', {
      id: name,
      name,
      type,
      value: chosen[name] ?? '',
      ...(type === 'text' ? { maxlength: 200, autocomplete: 'off', spellcheck: false } : {}),
    }),
  ])
}

/**
 * Lets a person choose one option, or `any`. If the address has a value that is not an option, this value is added to
 * the options and stays selected.
 */
export function Choice({
  name,
  label,
  chosen,
  options,
}: {
  readonly name: string
  readonly label: string
  readonly chosen: Chosen
  /**
   * Each option has a value and a text. A long text is cut. After this text, an option can have a second text, which is
   * never cut.
   */
  readonly options: readonly (readonly [string, string, string?])[]
}): ComponentChild {
  const value = chosen[name] ?? ''
  const isListed = value === '' || options.some(([id]) => id === value)
  return h('div', null, [
    h('label', { for: name }, label),
    h('select', { id: name, name }, [
      h('option', { value: '' }, 'any'),
      isListed ? null : h('option', { value, selected: true }, beginning(value, 60)),
      options.map(([id, words, end = '']) =>
        h('option', { value: id, selected: id === value }, beginning(words, 80) + end),
      ),
    ]),
  ])
}

/**
 * Returns the beginning of a text. Invisible characters, and marks that change the writing direction, are shown as
 * numbers such as `U+202E`.
 */
const beginning = (text: string, characters: number): string =>
  visible(text.slice(0, characters).toWellFormed())
