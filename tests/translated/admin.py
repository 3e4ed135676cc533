from django.contrib import admin
from modeltranslation.admin import TranslationAdmin

from tests.translated.models import Animal, Visit


@admin.register(Animal)
class AnimalAdmin(TranslationAdmin):
    list_display = ("name", "about", "price", "seen", "legs")
    search_fields = ("name",)


admin.site.register(Visit)
