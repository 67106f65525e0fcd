import { sql } from 'kysely'
import { z } from 'zod'
import type { AuditEventType } from '../contract/audit-events.ts'
import type { VersionedKind } from '../db/schema/policy.ts'
import type { Caller } from '../governance/access/identity.ts'
import type { Context } from '../governance/context.ts'
import { actOnce, type Once } from '../governance/idempotency.ts'
import {
  listOwned,
  readOwned,
  versionNumber,
  type Owned,
  type Page,
  type PageRequest,
} from '../governance/page.ts'
import { listPolicyVersions, readPolicyVersion } from '../governance/rules/versions.ts'
import { mayBeHeld, unlessHeld, whenHeld } from './held.ts'
import { filter } from './query.ts'
import { created, nothing, ok, tagged, type Call, type Needs, type Route } from './route.ts'
import { emptyBody, id, listOf, listQuery, listQueryOfPath, named, pageIn, time } from './schemas/common.ts'
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
  /** Which changes can wait for a second person (src/governance/changes/gate.ts): all of them, or these. */
  readonly governed?: 'all' | readonly Act[]
}

type Act = 'create' | 'change' | 'restore' | 'remove'

type Described = Pick<Route, 'summary' | 'description' | 'audit' | 'waits' | 'example'>

const versionShape = {
  version: z.int(),
  change: z.enum(['created', 'updated', 'deleted']),
  restored_from: z.int().nullable().describe('the version whose body was taken again'),
  created_by: id,
  created_by_email: z.string(),
  approved_by: id.nullable().describe('the second person whom the change needed; null for none'),
  approved_by_email: z.string().nullable(),
  created_at: time,
}
const versionSummary = named('PolicyVersion', versionShape)

/** What names an object in the path and the query of a request. */
interface Naming {
  readonly id: string
  readonly query: Readonly<Record<string, string | undefined>>
}

type ListQuery<Subject, Filter extends string> =
  (Subject extends 'organization' ? typeof listQueryOfPath : typeof listQuery) extends z.ZodObject<
    infer Shape
  >
    ? z.ZodObject<Shape & { [Name in Filter]: z.ZodOptional<typeof filter> }>
    : never

export function objects<
  const All extends Path,
  const One extends Path,
  const Subject extends 'organization' | 'api_key' | 'connection',
  Shown extends z.ZodObject,
>({ tag, all, one, subject, reads, writes, shown, from, governed }: Declaration<All, One, Subject, Shown>) {
  const mayWait = (act: Act): boolean => governed === 'all' || governed?.includes(act) === true
  const held = (act: Act): object => (mayWait(act) ? mayBeHeld : {})
  const changing = (act: Act, given: Described): Described =>
    described(mayWait(act) ? { ...given, audit: [...(given.audit ?? []), whenHeld] } : given)
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
        ...changing('create', given),
        key: `POST ${all}`,
        needs: { ...writes, subject: ofAll },
        body: given.body,
        responses: { 201: (given.answer ?? shown) as Made, ...held('create') },
        async handle({ context, caller, body, once }) {
          const made = await actOnce(once, () => given.run(context, caller, body as z.output<B>, once))
          return unlessHeld(made, (object) => created(given.show?.(object) ?? object))
        },
      }),

    list: <const Filter extends string = never>(
      given: Described & {
        /** Further parameters of the query, which `run` takes. */
        readonly filters?: readonly Filter[]
        /** Default: the rows, newest first. */
        run?(
          context: Context,
          caller: Caller,
          page: PageRequest,
          filters: { readonly [Name in Filter]?: string | undefined },
        ): Promise<Page<object>>
      },
    ) =>
      route({
        ...described(given),
        key: `GET ${all}`,
        needs: { ...reads, subject: ofAll },
        query: (subject === 'organization' ? listQueryOfPath : listQuery).extend(
          Object.fromEntries((given.filters ?? []).map((name) => [name, filter.optional()])),
        ) as unknown as ListQuery<Subject, Filter>,
        responses: { 200: listOf(shown) },
        async handle({ context, caller, query }) {
          const { limit, cursor, ...filters } = query as z.output<typeof listQueryOfPath>
          const page = pageIn({ limit, cursor })
          return ok(
            await (given.run?.(context, caller, page, filters as never) ??
              listOwned(context, rows(), caller, page)),
          )
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

    /** The versions that the changes of an object have left: their list, one with its body, and its restoration. */
    versions: <const Name extends string, B extends Body>(given: {
      readonly kind: VersionedKind
      readonly word: string
      /** The schema's name. */
      readonly name: Name
      readonly body: B
      /** What names the object besides the path. */
      readonly query?: z.ZodObject
      readonly audit: readonly AuditEventType[]
      /** As kept versions name the object. Default: the id in the path. */
      idOf?(named: Naming): string
      /** Answers the object as it is then. */
      restore(
        context: Context,
        caller: Caller,
        of: Naming & { readonly version: string },
        once: Once | null,
      ): Promise<object>
    }) => {
      const { kind, word, query } = given
      const nameIn = (call: { readonly params: object; readonly query: object }): Naming => ({
        id: idIn(call),
        query: call.query as Naming['query'],
      })
      const objectIn = (call: { readonly params: object; readonly query: object }) => ({
        kind,
        id: given.idOf?.(nameIn(call)) ?? nameIn(call).id,
      })
      const ofObject = (call: { readonly params: object; readonly query: object }) =>
        sql`select from policy_versions where organization_id = s.organization_id
            and kind = ${kind} and object_id = ${objectIn(call).id}`
      const innerObject: Inner = { word, param, exists: (call) => sql`exists (${ofObject(call)})` }
      const innerVersion: Inner = {
        word: 'version',
        param: 'version',
        exists: (call) =>
          sql`exists (${ofObject(call)} and version = ${versionNumber(call.params['version'] ?? '')})`,
      }
      const versionIn = (call: Pick<Call, 'params'>) =>
        (call.params as Record<string, string>)['version'] ?? ''
      return [
        route({
          key: `GET ${one}/versions`,
          needs: { ...reads, subject },
          inner: [innerObject],
          summary: `What each change of a ${word} left, newest first; also of a deleted one`,
          query: listQueryOfPath.extend(query?.shape ?? {}),
          responses: { 200: listOf(versionSummary) },
          async handle(call) {
            const { context, caller } = call
            const page = pageIn(call.query as z.output<typeof listQueryOfPath>)
            return ok(await listPolicyVersions(context.db, caller.organizationId, objectIn(call), page))
          },
        }),
        route({
          key: `GET ${one}/versions/{version}`,
          needs: { ...reads, subject },
          inner: [innerObject, innerVersion],
          summary: `A ${word} as one change left it, and as it was before`,
          query: query as z.ZodObject,
          responses: {
            200: named(given.name, {
              ...versionShape,
              body: given.body.nullable().describe('null after a deletion'),
              before: given.body.nullable().describe('null if no version before it is kept'),
            }),
          },
          async handle(call) {
            const { context, caller } = call
            return ok(
              await readPolicyVersion(context.db, caller.organizationId, objectIn(call), versionIn(call)),
            )
          },
        }),
        route({
          key: `POST ${one}/versions/{version}/restore`,
          needs: { ...writes, subject },
          inner: [innerObject, innerVersion],
          ...changing('restore', {
            audit: given.audit,
            summary: `Give a ${word} the body of an earlier version again; a deleted one comes back`,
          }),
          query: query as z.ZodObject,
          body: emptyBody,
          responses: { 200: shown, ...held('restore') },
          async handle(call) {
            const of = { ...nameIn(call), version: versionIn(call) }
            const restore = () => given.restore(call.context, call.caller, of, call.once)
            return unlessHeld(await actOnce(call.once, restore), ok)
          },
        }),
      ] as const
    },

    replace: <B extends Body>(given: Change<B, undefined>) => change('PUT', given),
    change: <B extends Body, Q extends Query = undefined>(given: Change<B, Q>) => change('PATCH', given),

    remove: <Q extends Query = undefined>(
      given: Described & {
        readonly query?: Q
        run(context: Context, caller: Caller, id: string, query: Output<Q>): Promise<unknown>
      },
    ) =>
      route({
        ...changing('remove', given),
        key: `DELETE ${one}`,
        needs: { ...writes, subject },
        inner,
        query: given.query as Q,
        responses: { 204: null, ...held('remove') },
        handle: async (call) =>
          unlessHeld(await given.run(call.context, call.caller, idIn(call), call.query), nothing),
      }),
  }

  function change<const M extends 'PUT' | 'PATCH', B extends Body, Q extends Query>(
    method: M,
    given: Change<B, Q>,
  ) {
    return route({
      ...changing('change', given),
      key: `${method} ${one}`,
      needs: { ...writes, subject },
      inner,
      query: given.query as Q,
      body: given.body,
      responses: { 200: shown, ...held('change') },
      async handle(call) {
        const body = call.body as z.output<B>
        return unlessHeld(await given.run(call.context, call.caller, idIn(call), body, call.query), ok)
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
