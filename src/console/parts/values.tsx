import type { RunView } from '../visit.ts'
import type { ComponentChild } from 'preact'
import type { Json, JsonObject } from '../../policy/types.ts'
import { list } from '../../policy/text.ts'
import { LongText, Message, mostShown, Words, type LongKind } from './words.tsx'
import { Badge } from './state.tsx'

/*
 * A person who approves must not miss a part of a value. So a value is shown whole if its JSON has at most `mostShown`
 * characters. A longer one is cut, and the page of the approval says so (pages/parameters.ts).
 */

/** What is deeper, or comes after so many values, is shown as JSON. */
const deepest = 5
const mostValues = 300

/**
 * Of a value that must be cut: texts of at most `shortText` characters, and the room for them. Long texts have a limit
 * of their own (`mostShown`), so they do not use it up.
 */
const shortText = 2_000
const mostOfShort = 500_000

/** A longer name is shown like a text. */
const mostOfName = 300

/** Parameters of agents' tools that a shell or another program runs. */
const commands: ReadonlySet<string> = new Set(['command', 'cmd', 'script', 'code'])

export const lengthOf = (value: unknown): number => JSON.stringify(value, null, 2).length

/** Objects and values of JSON, as the routes' schemas describe what tools and workflows define. */
export type Fields = Readonly<Record<string, unknown>>

export function Values({ values, beside }: { values: Fields; beside?: Beside }) {
  const object = values as JsonObject
  return <div class="values">{fields(object, 0, remainingFor(object), beside)}</div>
}

type Beside = (name: string) => ComponentChild

export function Value({ value: given }: { value: unknown }) {
  const value = given as Json
  return isObject(value) ? (
    <Values values={value} />
  ) : (
    <div class="values">{valueAt(value, 0, remainingFor(value))}</div>
  )
}

interface Remaining {
  values: number
  readonly characters: { short: number; long: number }
}

const remainingFor = (value: Json): Remaining => ({
  values: mostValues,
  characters:
    lengthOf(value) <= mostShown
      ? { short: Infinity, long: Infinity }
      : { short: mostOfShort, long: mostShown },
})

function textIn({ characters }: Remaining, text: string, textKind: LongKind = 'text') {
  const kind = text.length <= shortText ? 'short' : 'long'
  const most = Math.min(text.length, characters[kind])
  characters[kind] -= most
  return <LongText text={text} most={most} kind={textKind} />
}

const jsonIn = (remaining: Remaining, value: Json) =>
  textIn(remaining, JSON.stringify(value, null, 2), 'json')

function fields(values: JsonObject, depth: number, remaining: Remaining, beside?: Beside): ComponentChild {
  const entries = Object.entries(values)
  if (entries.length === 0) return <p class="quiet">no values</p>
  const [shown, others] = split(entries, remaining)
  return (
    <>
      <dl class="fields">
        {shown.map(([name, value]) => (
          <div class="field">
            <dt>
              {nameIn(remaining, name)}
              {beside === undefined ? null : <> {beside(name)}</>}
            </dt>
            <dd>{valueAt(value, depth + 1, remaining, name)}</dd>
          </div>
        ))}
      </dl>
      {others.length === 0 ? null : restOf(remaining, others.length, Object.fromEntries(others))}
    </>
  )
}

const nameIn = (remaining: Remaining, name: string) =>
  name.length <= mostOfName ? <Words text={name} /> : textIn(remaining, name)

function items(list: readonly Json[], depth: number, remaining: Remaining): ComponentChild {
  const [shown, others] = split(list, remaining)
  return (
    <>
      <ol class="items">
        {shown.map((each) => (
          <li>{valueAt(each, depth + 1, remaining)}</li>
        ))}
      </ol>
      {others.length === 0 ? null : restOf(remaining, others.length, others)}
    </>
  )
}

function split<T>(entries: readonly T[], { values }: Remaining): readonly [readonly T[], readonly T[]] {
  const most = Math.max(0, values)
  return [entries.slice(0, most), entries.slice(most)]
}

const restOf = (remaining: Remaining, count: number, value: Json) => (
  <div class="field">
    <p class="quiet small">{`${count.toLocaleString('en')} more, as JSON:`}</p>
    {jsonIn(remaining, value)}
  </div>
)

function valueAt(value: Json, depth: number, remaining: Remaining, name = ''): ComponentChild {
  remaining.values -= 1
  if (typeof value === 'string')
    return value === '' ? (
      <span class="quiet">empty text</span>
    ) : (
      textIn(remaining, value, commands.has(name) ? 'command' : 'text')
    )
  if (value === null)
    return (
      <span class="quiet" title="no value">
        –
      </span>
    )
  if (typeof value !== 'object') return <code>{String(value)}</code>
  if (depth > deepest || remaining.values <= 0) return jsonIn(remaining, value)
  if (isObject(value)) return fields(value, depth, remaining)
  return value.length === 0 ? <span class="quiet">empty list</span> : items(value, depth, remaining)
}

const isObject = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function Facts({ facts }: { facts: readonly (readonly [string, ComponentChild | null])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) =>
        value === null ? null : (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  )
}

/** Stands in place of values that the reader may not see. */
export const Hidden = ({ hidden: { reason, ask } }: { hidden: NonNullable<RunView['values_hidden']> }) => (
  <p class="quiet">
    <Message text={`${reason}: ask ${list(ask, 'or')}`} />
  </p>
)

type InputsShown = Pick<RunView, 'inputs' | 'input_labels' | 'values_hidden'>

const mostNames = 50

/** If the reader may not see values, the names of inputs with labels. */
export function Inputs({ run: { inputs, input_labels, values_hidden } }: { run: InputsShown }) {
  const labels = (name: string): ComponentChild => <LabelsOf name={name} labels={input_labels} />
  const names = Object.keys(inputs ?? input_labels)
  if (inputs !== undefined)
    return names.length === 0 ? <p class="quiet">No inputs.</p> : <Values values={inputs} beside={labels} />
  return (
    <>
      {values_hidden === undefined ? null : <Hidden hidden={values_hidden} />}
      <ul class="stack">
        {names.slice(0, mostNames).map((name) => (
          <li class="badges">
            <code>
              <Words text={name} most={100} />
            </code>
            {labels(name)}
          </li>
        ))}
      </ul>
      {names.length > mostNames ? <p class="quiet">{`and ${names.length - mostNames} more`}</p> : null}
    </>
  )
}

const mostLabels = 10

function LabelsOf({ name, labels: all }: { name: string; labels: InputsShown['input_labels'] }) {
  const labels = Object.hasOwn(all, name) ? (all[name] ?? []) : []
  return (
    <>
      {labels.slice(0, mostLabels).map(({ label }) => (
        <span class="label">{label}</span>
      ))}
      {labels.length > mostLabels ? (
        <Badge tone="off" word={`${labels.length - mostLabels} more labels`} />
      ) : null}
    </>
  )
}
