from modeltranslation.translator import TranslationOptions, register

from tests.translated.models import Animal


@register(Animal)
class AnimalTranslation(TranslationOptions):
    fields = ("name", "about", "price", "seen")
