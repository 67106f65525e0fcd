import type { ComponentChildren } from 'preact'
import type { Page } from '../visit.ts'
import { Copy } from './copy.tsx'
import { Island } from './island.tsx'

/**
 * The page that shows a secret, as the answer to the form that has made it: the secret is in no address, and browsers
 * keep no copy. `inside` stands in the frame of the secret, `before` and `after` around the frame.
 */
export const secretPage = (props: {
  readonly title: string
  /** What screen readers call the secret. */
  readonly label: string
  readonly secret: string
  readonly before?: ComponentChildren
  readonly inside?: ComponentChildren
  readonly after: ComponentChildren
}): Page => ({
  status: 200,
  title: props.title,
  main: (
    <article class="page medium">
      <h1>{props.title}</h1>
      {props.before}
      <section class="card stack" aria-label={props.label}>
        <p>
          <strong>Copy it now.</strong> No other page shows it, and nobody can read it later.
        </p>
        <p class="secret">
          <code id="secret">{props.secret}</code>
        </p>
        <Island of={Copy} props={{ from: 'secret' }} />
        {props.inside}
      </section>
      {props.after}
    </article>
  ),
})
