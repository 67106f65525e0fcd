import '../context.ts'
