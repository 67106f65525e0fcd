import type { z } from 'zod'
import type { Caller } from '../governance/access/identity.ts'
import type { Context } from '../governance/context.ts'
import { actOnce, type Once } from '../governance/idempotency.ts'
import { listOwned, readOwned, type Owned, type Page, type PageRequest } from '../governance/page.ts'
import { created, done, ok, tagged, type Call, type Needs, type Route } from './route.ts'
import { listOf, listQuery, listQueryOfPath, pageIn } from './schemas/common.ts'
import { inOwned, type Inner } from './subjects.ts'

/*
 * The routes of an organization's objects, made from what these routes have in common. The functions that change an
 * object keep its limits, audit entries and `once`, and are in src/governance. What only one kind of object does stays
 * a route of its own.
 */

type Path = `/${string}`
type Body = z.ZodType
type Query = z.ZodObject | undefined
type Output<S> = S extends z.ZodType ? z.output<S> : undefined

interface Declaration<All extends Path, One extends Path, Subject, Shown> {
  readonly tag: string
  /** The path of all objects, and that of one, whose last parameter names it. */
  readonly all: All
  readonly one: One
  /** The subject of `one`. With `organization` both paths name the organization, else `all` has the subject `own`. */
  readonly subject: Subject
  readonly reads: Pick<Needs, 'scope' | 'role'>
  readonly writes: Pick<Needs, 'scope' | 'role'>
  /** What answers show of an object. */
  readonly shown: Shown
  /** Where lists and single objects are read, and missing ones noticed; or how a missing one is noticed. */
  readonly from: Owned | Inner
}

type Described = Pick<Route, 'summary' | 'description' | 'audit' | 'waits' | 'example'>

type ListQuery<Subject> = Subject extends 'organization' ? typeof listQueryOfPath : typeof listQuery

export function objects<
  const All extends Path,
  const One extends Path,
  const Subject extends 'organization' | 'api_key' | 'connection',
  Shown extends z.ZodObject,
>({ tag, all, one, subject, reads, writes, shown, from }: Declaration<All, One, Subject, Shown>) {
  const { route } = tagged(tag)
  const param = one.slice(one.lastIndexOf('{') + 1, -1)
  const idIn = ({ params }: Pick<Call, 'params'>): string => (params as Record<string, string>)[param] ?? ''
  const inner = ['exists' in from ? from : inOwned(param, from)]
  const ofAll = subject === 'organization' ? subject : ('own' as const)
  const rows = (): Owned => {
    if ('exists' in from) throw new Error(`the objects at ${all} say nothing of their rows`)
    return from
  }

  return {
    create: <B extends Body, T extends object, Made extends z.ZodObject = Shown>(
      given: Described & {
        readonly body: B
        /** Default: `shown`. */
        readonly answer?: Made
        /** After a crash, its stored result is answered, and it does not run again. */
        run(context: Context, caller: Caller, body: z.output<B>, once: Once | null): Promise<T>
        /** Makes the answer from the result. Default: the result itself. */
        show?(made: T): object
      },
    ) =>
      route({
        ...described(given),
        key: `POST ${all}`,
        needs: { ...writes, subject: ofAll },
        body: given.body,
        responses: { 201: (given.answer ?? shown) as Made },
        async handle({ context, caller, body, once }) {
          const made = await actOnce(once, () => given.run(context, caller, body as z.output<B>, once))
          return created(given.show?.(made) ?? made)
        },
      }),

    list: (
      given: Described & {
        /** Default: the rows, newest first. */
        run?(context: Context, caller: Caller, page: PageRequest): Promise<Page<object>>
      },
    ) =>
      route({
        ...described(given),
        key: `GET ${all}`,
        needs: { ...reads, subject: ofAll },
        query: (subject === 'organization' ? listQueryOfPath : listQuery) as ListQuery<Subject>,
        responses: { 200: listOf(shown) },
        async handle({ context, caller, query }) {
          const page = pageIn(query)
          return ok(await (given.run?.(context, caller, page) ?? listOwned(context, rows(), caller, page)))
        },
      }),

    read: (
      given: Described & {
        /** Default: the row. */
        run?(context: Context, caller: Caller, id: string): Promise<object>
      },
    ) =>
      route({
        ...described(given),
        key: `GET ${one}`,
        needs: { ...reads, subject },
        inner,
        responses: { 200: shown },
        async handle(call) {
          const { context, caller } = call
          return ok(
            await (given.run?.(context, caller, idIn(call)) ??
              readOwned(context, rows(), caller, idIn(call))),
          )
        },
      }),

    replace: <B extends Body>(given: Change<B, undefined>) => change('PUT', given),
    change: <B extends Body, Q extends Query = undefined>(given: Change<B, Q>) => change('PATCH', given),

    remove: <Q extends Query = undefined>(
      given: Described & {
        readonly query?: Q
        run(context: Context, caller: Caller, id: string, query: Output<Q>): Promise<unknown>
      },
    ) =>
      route({
        ...described(given),
        key: `DELETE ${one}`,
        needs: { ...writes, subject },
        inner,
        query: given.query as Q,
        responses: { 204: null },
        handle: (call) => done(given.run(call.context, call.caller, idIn(call), call.query)),
      }),
  }

  function change<const M extends 'PUT' | 'PATCH', B extends Body, Q extends Query>(
    method: M,
    given: Change<B, Q>,
  ) {
    return route({
      ...described(given),
      key: `${method} ${one}`,
      needs: { ...writes, subject },
      inner,
      query: given.query as Q,
      body: given.body,
      responses: { 200: shown },
      async handle(call) {
        const body = call.body as z.output<B>
        return ok(await given.run(call.context, call.caller, idIn(call), body, call.query))
      },
    })
  }
}

type Change<B extends Body, Q extends Query> = Described & {
  readonly body: B
  readonly query?: Q
  run(context: Context, caller: Caller, id: string, body: z.output<B>, query: Output<Q>): Promise<object>
}

/** What the kit takes over as it is given. */
const described = ({ summary, description, audit, waits, example }: Described): Described => ({
  summary,
  ...(description === undefined ? {} : { description }),
  ...(audit === undefined ? {} : { audit }),
  ...(waits === undefined ? {} : { waits }),
  ...(example === undefined ? {} : { example }),
})
