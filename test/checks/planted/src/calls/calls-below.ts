import '../api/route.ts'
