import type { ComponentChild, ComponentChildren } from 'preact'
import { OnceField, PostForm } from './layout.tsx'
import { Empty, Table } from './list.tsx'

/** A part of a page with all of a few things, and a form that makes another one. Its fields are the children. */
export function ShortList(props: {
  readonly id: string
  readonly title: string
  readonly about?: ComponentChildren
  readonly none: { readonly title: string; readonly words: string }
  readonly head: readonly string[]
  readonly rows: readonly (readonly ComponentChild[])[]
  readonly form: {
    readonly action: string
    readonly token: string
    readonly title: string
    /** The value and the text of its button. */
    readonly button: readonly [string, string]
  }
  readonly children: ComponentChildren
}) {
  const { id, title, none, form, rows } = props
  const [value, words] = form.button
  return (
    <section class="stack" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      {props.about}
      {rows.length === 0 ? (
        <Empty title={none.title}>{none.words}</Empty>
      ) : (
        <Table label={title} head={props.head} rows={rows} />
      )}
      <PostForm action={form.action} token={form.token} class="card fill">
        <h3>{form.title}</h3>
        <OnceField />
        {props.children}
        <button name="action" value={value}>
          {words}
        </button>
      </PostForm>
    </section>
  )
}
