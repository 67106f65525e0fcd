import { useEffect, useState } from 'preact/hooks'

interface ScopeChoiceProps {
  /** Scopes and their words, by area. */
  readonly groups: readonly {
    readonly title: string
    readonly options: readonly (readonly [string, string])[]
  }[]
  readonly checked: readonly string[]
  /** Without the script, a link to the page with the boxes of a preset checked. */
  readonly presets: readonly {
    readonly words: string
    readonly href: string
    readonly scopes: readonly string[]
  }[]
  /** What is wrong stands above, with the id `scopes-wrong`. */
  readonly isWrong: boolean
}

/** An island: the check boxes of a key's scopes, with presets, and a sentence that says what the key may do. */
export function ScopeChoice({ groups, checked: first, presets, isWrong }: ScopeChoiceProps) {
  const [checked, setChecked] = useState(first)
  const [isLive, setIsLive] = useState(false)
  useEffect(() => setIsLive(true), [])
  const options = groups.flatMap((group) => group.options)
  const chosen = options.filter(([name]) => checked.includes(name))
  const isChosen = (scopes: readonly string[]): boolean =>
    scopes.length === chosen.length && chosen.every(([name]) => scopes.includes(name))
  const change = (name: string, isOn: boolean): void =>
    setChecked((before) => (isOn ? [...before, name] : before.filter((each) => each !== name)))
  return (
    <fieldset
      id="scopes"
      class="checks stack"
      tabindex={-1}
      {...(isWrong ? { 'aria-invalid': true, 'aria-describedby': 'scopes-wrong' } : {})}
    >
      <legend>What it may do</legend>
      {presets.length === 0 ? null : (
        <div role="group" class="links" aria-label="What the key is for">
          <span class="quiet">Check what is needed by:</span>
          {presets.map(({ words, href, scopes }) => (
            <a
              href={href}
              {...(isChosen(scopes) ? { 'aria-current': 'true' as const } : {})}
              onClick={(event) => {
                event.preventDefault()
                setChecked(scopes)
              }}
            >
              {words}
            </a>
          ))}
        </div>
      )}
      {groups.map(({ title, options }) => (
        <div role="group" aria-label={title} class="check-group">
          <p class="quiet small">{title}</p>
          {options.map(([name, words]) => (
            <label class="check">
              <input
                type="checkbox"
                name="scopes"
                value={name}
                checked={checked.includes(name)}
                onChange={({ currentTarget }) => change(name, currentTarget.checked)}
              />
              {words}
            </label>
          ))}
        </div>
      ))}
      {isLive ? (
        <p class="quiet small" role="status">
          {chosen.length === 0
            ? 'It may do nothing yet.'
            : `The key may ${inShort(chosen.map(([, words]) => words))}.`}
        </p>
      ) : null}
    </fieldset>
  )
}

const mostNamed = 4

/** `read runs, start, resume and cancel runs, and 3 more` */
export function inShort(words: readonly string[]): string {
  const left = words.length - mostNamed
  return [...words.slice(0, mostNamed), ...(left > 0 ? [`and ${left} more`] : [])].join(', ')
}
