import type { ComponentChildren } from 'preact'
import { settingsPath } from '../../contract/pages.ts'
import type { PersonsVisit } from '../visit.ts'
import { empty, Seen, Field, Wrong, problemsAt, type Filled } from './form.tsx'
import { OnceField, PostForm } from './layout.tsx'
import { fieldOf, type SettingWords, type Settings } from './setting-words.ts'
import { Words } from './words.tsx'

/* A setting: what holds now in a sentence, and for owners the form that changes it, with what that would do. */

export interface SettingsView {
  readonly visit: PersonsVisit
  readonly settings: Settings
  readonly filled: Filled
  readonly mayChange: boolean
}

/** A card with a form that is unfolded if it was refused. */
export function SettingCard(props: {
  readonly name: string
  readonly title: string
  readonly now: ComponentChildren
  readonly effect: ComponentChildren
  readonly view: SettingsView
  readonly children?: ComponentChildren
}) {
  const { name, title, now, effect, view, children } = props
  const isRefused = view.filled.form?.get('setting') === name
  return (
    <section class="setting" id={`setting-${name}`} aria-labelledby={`title-${name}`}>
      <div class="split">
        <h3 id={`title-${name}`}>{title}</h3>
        <strong>{now}</strong>
      </div>
      <p>{effect}</p>
      {view.visit.query.get('done') === name ? (
        <p class="note" role="status">
          Saved. It holds from the next decision on.
        </p>
      ) : null}
      {view.mayChange ? (
        <details open={isRefused}>
          <summary class="link">
            Change<span class="unseen">{` ${title}`}</span> …
          </summary>
          <PostForm action={settingsPath} token={view.visit.token} class="fill">
            <OnceField />
            <input type="hidden" name="setting" value={name} />
            <Seen value={view.settings[name as keyof Settings]} filled={isRefused ? view.filled : empty} />
            {children}
          </PostForm>
        </details>
      ) : null}
    </section>
  )
}

export function Setting(props: {
  readonly name: string
  readonly words: SettingWords
  readonly view: SettingsView
  /** What a change would do first. */
  readonly first: string | null
}) {
  const { name, words, view, first } = props
  const now = fieldOf(view.settings[name as keyof Settings])
  const chosen = words.choices?.find(([value]) => value === now)
  const effect =
    chosen !== undefined ? (
      chosen[2]
    ) : name === 'approval_threshold' ? (
      `Every approval needs the votes of at least ${now === '1' ? '1 person' : `${now} people`}.`
    ) : now === '' ? (
      'None.'
    ) : (
      <Words text={now} most={4_000} />
    )
  const count = now === '' ? 0 : now.split(', ').length
  return (
    <SettingCard
      name={name}
      title={words.title}
      now={chosen?.[1] ?? (words.most === undefined ? String(count) : now)}
      effect={effect}
      view={view}
    >
      {words.choices === undefined ? (
        <Field
          name={name}
          label={words.title}
          value={now}
          optional={true}
          {...(words.most === undefined ? { rows: 2, most: 8_000 } : { most: 4 })}
          {...(words.help === undefined ? {} : { help: words.help })}
          filled={view.filled}
        />
      ) : (
        <Choices name={name} words={words} now={now} filled={view.filled} />
      )}
      {first === null ? null : <p class="note">{first}</p>}
      <button class="primary" name="action" value="save">
        Save<span class="unseen">{` ${words.title}`}</span>
      </button>
    </SettingCard>
  )
}

/** One is chosen; each says what holds then. */
function Choices(props: { name: string; words: SettingWords; now: string; filled: Filled }) {
  const { name, words, now, filled } = props
  const wrong = problemsAt(filled, name)
  const chosen = filled.form?.get(name) ?? now
  return (
    <fieldset
      id={name}
      class="checks stack"
      tabindex={-1}
      {...(wrong.length > 0 ? { 'aria-invalid': true } : {})}
    >
      <legend class="unseen">{words.title}</legend>
      <Wrong name={name} wrong={wrong} />
      {words.choices?.map(([value, label, effect]) => (
        <label class="check choice">
          <input type="radio" name={name} value={value} checked={value === chosen} />
          <span>
            {label}
            <span class="quiet small">{effect}</span>
          </span>
        </label>
      ))}
    </fieldset>
  )
}
